// Package predict predicts the requirements, time and cost of a training before it runs. For each option (a machine
// of the price catalogue, on demand or spot, or a local machine) it returns time, cost, peak memory and share of
// resources with 90 % intervals, the supporting measurements, the chance of meeting a deadline and a budget, the
// option that a preference selects, and the changes that would select another one.
//
// It measures nothing and has no default estimates: without a similar measurement it returns [transfer.ErrNoBasis]
// with the missing information. It reads no file and no clock; measurements, prices and the predictor are arguments.
//
// Example:
//
//	learn := func(entries []history.Entry) predict.Predictor { return transfer.New(entries, transfer.Options{}) }
//	answer, err := predict.Ask(question, entries, learn)
//	err = answer.Render(os.Stdout, "text")
package predict
