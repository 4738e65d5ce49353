package training

// Model predicts how long a unit of work takes at an allocation.
type Model struct{}
