//! Hooks: places where a graph node waits until an operator clears it.
