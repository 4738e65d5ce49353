package inspect

// Finding is something that inspection concluded, with the line that shows it.
type Finding struct {
	Value string `json:"value"`
	Line  int    `json:"line"` // 1-based; 0 when not from a line
	Text  string `json:"text"` // that line, trimmed
}

// Inspection is what can be known of a script without running it. An empty Value means unknown.
type Inspection struct {
	Path   string
	SHA256 string
	Kind   string // python, shell, executable, command

	Framework Finding // pytorch, tensorflow, jax, sklearn, numpy, stdlib …
	Model     Finding // family: resnet, bert, vit, mlp …
	Dataset   Finding
	GPU       Finding // "yes" when the script uses an accelerator
	BatchSize Finding // default value found
	Epochs    Finding
	Entry     Finding // training entry point: function name
	// Resumable is "yes" when the script saves a checkpoint on a signal and, started again with the same command, resumes from
	// it. Command.Resumption knows further ways.
	Resumable Finding
	// HandlesInterrupt is "yes" when the script ends its training loop in order on Ctrl-C (SIGINT).
	HandlesInterrupt Finding
	// Reads lists the contract's environment variables that the script reads, sorted; an allocation knob that is not
	// among them cannot be expected to reach the script. Those that the script's libraries read for it are
	// included (OMP_NUM_THREADS for PyTorch).
	Reads []string
	// Log is the CSV that the script writes, when a literal name is found.
	Log Finding
	// Replay is true for a script that declares itself a replay of a measured profile (OPTIMIZE_REPLAY = True at module level).
	Replay bool
	// StopSignal is the signal on which the script saves and leaves: "SIGUSR1" when it handles that, else
	// "SIGTERM", empty when it handles neither. A signal that a script does not handle kills it.
	StopSignal Finding
	// MultiGPU names what spreads the work over several GPUs ("DataParallel", "accelerate" …); empty when
	// nothing in the script does.
	MultiGPU Finding
	// Script is the Python script that a shell script or a command runs, with its path; the findings and
	// their lines are of that file. Empty when Path itself was inspected.
	Script string
	// Likeness is what is kept of the text to compare it with other versions of the script, by CompareLikeness; about 160 bytes.
	Likeness string
	// Warnings say what was odd ("not UTF-8 in line 7").
	Warnings []string
}
