// Package predict answers what a training would need, take and cost before it runs: for each way to run it (a machine of the
// price catalogue, on demand or spot, or the machine at hand) its time, cost, peak memory and share of resources with 90 %
// intervals, what that rests on, whether a deadline and a budget would hold, which one a preference selects, and what would
// change the choice.
//
// It measures nothing and knows no defaults: where no measurement resembles the question there is no answer, only
// [transfer.ErrNoBasis] with what to give. It reads no files and no clock; measurements, prices and the predictor are given.
//
//	learn := func(entries []history.Entry) predict.Predictor { return transfer.New(entries, transfer.Options{}) }
//	answer, err := predict.Ask(question, entries, learn)
//	err = predict.Render(os.Stdout, answer, "text")
package predict
