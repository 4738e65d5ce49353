// Package inspect determines the properties of a training: it reads a training script without importing or running
// it, and resolves the value of --train to a command.
//
// Inspect parses Python (tokens, logical lines, scopes, imports, calls, assignments), so that a model named in a
// comment, a docstring or a printed text is ignored and a constructor call has more weight than a name. Every finding
// contains the line of its evidence. A shell script is searched for its Python command, which is then inspected. For
// other programs only the kind is determined.
//
// It is not a type checker and does not follow imports into other files: properties defined in a script's own modules
// are unknown, and unknown is an empty Value, never a guess.
//
// ReadCommand parses a command line including launchers and returns the length of the training (Lengths), the number
// of local processes (localRanks), the arguments for batch size, workers or a checkpoint (Mapping), and the way to
// continue after a stop (Resumption). It reads the configuration files named on the command line.
//
// Example:
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
