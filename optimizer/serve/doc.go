// Package serve is the local web page over the runs of a state directory: the list of runs, one run while it trains,
// comparisons of runs, wasted spend, and result files of simulations. It reads what the agents write; a run is changed
// only through its agent. The same data is available as JSON.
//
// The page works without scripts; with them it follows a run by server-sent events. Reading is open to the machine
// itself; a change requires the token of the state directory.
//
// It decides and measures nothing, and it is not a web service: it answers plain HTTP for one user or a small team.
//
//	token, err := serve.Token(stateDir)
//	…
//	s := serve.New(serve.Options{StateDir: stateDir, Token: token})
//	defer s.Close()
//	err = s.Server().Serve(listener)
package serve
