package network

// SetRate changes the learning rate of the steps to come; moments are kept.
func (t *Trainer) SetRate(rate float32) { t.opt.Rate = rate }
