package runs

import (
	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/observe"
)

func pythonModuleCommand(e *cli.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		GroupID: cli.Setup, Use: "python-module", Short: "Write the Python module by which a training reports its progress itself", Args: cobra.NoArgs,
		Long: `Write optimize_hook.py, one file that requires only Python's standard library: a context manager, a decorator and callbacks
for Keras, Hugging Face and Lightning, which report a training to optimize, and the display of a run in a notebook. Outside
of optimize it does nothing. Trainings in these frameworks and in PyTorch need no module: optimize observes them as they are.`,
		Example: `  optimize python-module > optimize_hook.py`,
		RunE:    func(*cobra.Command, []string) error { return e.Write(file, "module", observe.WriteHook) },
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` instead of standard output")
	return cmd
}
