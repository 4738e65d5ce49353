// Command optimize trains models for less without breaking promises: it wraps an unmodified training
// script, measures it, plans under the user's deadline and budget, runs it under control and reports
// what was promised, predicted and paid. See docs/architecture.md for the house.
package main

import (
	"os"

	"trainopt/optimizer/launch"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == keeperArg {
		os.Exit(launch.KeeperMain(os.Args[2:]))
	}
	os.Exit(int(execute(processEnv())))
}
