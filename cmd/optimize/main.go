// Command optimize runs unmodified training scripts at lower cost within the user's limits: it measures the training,
// plans under a deadline and a budget, supervises the run, and reports limits, predictions and actual costs. See
// docs/architecture.md for the structure of the repository.
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
