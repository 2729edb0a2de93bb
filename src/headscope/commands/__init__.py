"""The commands, thin: options, then the library, then what is said."""
