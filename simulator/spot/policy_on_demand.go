package spot

// AlwaysOnDemand never uses spot capacity.
func AlwaysOnDemand(State) Choice { return Choice{Machine: OnDemand} }
