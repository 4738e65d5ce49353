// Package inspect knows what is to be trained: it reads a training script without importing or running
// it, and turns what a person wrote after --train into a command.
//
// Inspect parses Python (tokens, logical lines, scopes, imports, calls, assignments), so that a model
// named in a comment, a docstring or a printed text counts for nothing, and a constructor call counts
// more than a name. Every finding carries the line that shows it. A shell script is searched for the
// Python command in it, which is then inspected. Of any other program only its kind is known.
//
// It is not a type checker and follows no imports into other files: what a script hides in its own
// modules is unknown here, and unknown is an empty Value, never a guess.
//
// ReadCommand takes a command line apart, launchers included, and says how long the training is (Lengths), how many processes it
// starts here (LocalRanks), which of its arguments carry a batch size, workers or a checkpoint to resume from (Mapping), and how it
// continues after a stop (Resumption). It reads the configuration files that the command line names.
//
//	argv, ins, err := inspect.Resolve("train.py", []string{"--lr", "0.1"}, inspect.ResolveOptions{})
//	// argv: /usr/bin/python3 /home/me/train.py --lr 0.1
//	// ins.Framework: {Value: "pytorch", Line: 3, Text: "import torch"}
//
//	c := inspect.ReadCommand(argv, dir)
//	c.Lengths()                       // [{Units: 4, Unit: "epoch", Source: "--epochs 4 on the command line"}]
//	m := c.Mapping(nil)               // batch_size: --batch-size={}, now 64 (option --batch-size in line 12)
//	argv, err = m.Apply(argv, map[string]string{inspect.KnobBatchSize: "128"})
package inspect
