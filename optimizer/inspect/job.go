package inspect

// Finding is a property found by inspection, with the line of its evidence.
type Finding struct {
	Value string `json:"value"`
	Line  int    `json:"line"` // 1-based; 0 when not from a line
	Text  string `json:"text"` // that line, trimmed
}

// Inspection contains the properties of a script determined without running it. An empty Value means unknown.
type Inspection struct {
	Path   string
	SHA256 string
	Kind   string // python, shell, executable, command

	Framework Finding // pytorch, tensorflow, jax, sklearn, numpy, stdlib …
	Model     Finding // family: resnet, bert, vit, mlp …
	Dataset   Finding
	GPU       Finding // "yes" when the script uses an accelerator
	BatchSize Finding // default value found
	// Resumable is "yes" when the script saves a checkpoint on a signal and resumes from it when restarted with the
	// same command. Command.Resumption covers further ways.
	Resumable Finding
	// HandlesInterrupt is "yes" when the script leaves its training loop in an orderly way on Ctrl-C (SIGINT).
	HandlesInterrupt Finding
	// Reads contains the environment variables in Variables that the script reads, sorted. An allocation knob outside
	// this list does not reach the script. Variables read by the script's libraries are included (OMP_NUM_THREADS for
	// PyTorch).
	Reads []string
	// Replay reports that the script declares itself a replay of a measured profile (OPTIMIZE_REPLAY = True at module
	// level).
	Replay bool
	// StopSignal is the signal on which the script saves and exits: "SIGUSR1" if handled, otherwise "SIGTERM", empty
	// when neither is handled. An unhandled signal kills the script.
	StopSignal Finding
	// MultiGPU is the mechanism that distributes the work over several GPUs ("DataParallel", "accelerate" …); empty
	// without one.
	MultiGPU Finding
	// Script is the path of the Python script that a shell script or a command runs; the findings and their lines
	// refer to that file. Empty when Path itself was inspected.
	Script string
	// Likeness is a summary of the text, about 160 bytes, for comparison with other versions of the script by
	// CompareLikeness.
	Likeness string
	// Warnings describe irregularities ("not UTF-8 in line 7").
	Warnings []string

	setsLength bool // the script or its command sets the length of the training; ReadCommand returns it
}
