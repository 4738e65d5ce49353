// Package notify sends messages about a run: to a webhook, to Slack, by mail, or to a command.
//
// It never delays the run: Send returns at once, each target has its own queue and goroutine, each delivery a time limit,
// and only the first failure of a target is reported. It does not decide which messages are due; optimizer/run does.
//
//	target, err := notify.Parse("https://example.com/hook")
//	s := notify.NewSender([]notify.Target{target})
//	s.Send(notify.Message{Event: notify.Ended, RunID: id, Text: "done in 12 min"})
//	failures := s.Close(5 * time.Second)
package notify
