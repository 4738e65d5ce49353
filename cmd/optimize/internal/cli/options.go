package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Options is embedded by the option struct of every command: the environment and the flags of the command.
type Options struct {
	*Env
	Flags *pflag.FlagSet
}

// Options returns the options of a new command.
func (e *Env) Options(cmd *cobra.Command) Options {
	cmd.Flags().SetNormalizeFunc(Normalize)
	return Options{e, cmd.Flags()}
}

// Changed reports whether the user set one of the flags.
func (o Options) Changed(flags ...string) bool { return slices.ContainsFunc(flags, o.Flags.Changed) }

// Rule restricts the use of flags. If its condition holds, each of the flags that the user set is an error: "--rate
// cannot be combined with --trace", or "--window requires --rate".
type Rule struct {
	If       bool
	Flags    string // names, separated by spaces
	Except   string // instead of Flags: all flags of the command but these
	Conflict string // what the flags cannot be combined with
	Requires string // instead of Conflict: what they require
	Reason   string // optional
}

// Check returns the violations of the rules, nil if there are none.
func (o Options) Check(rules ...Rule) error {
	var errs []error
	for _, r := range rules {
		if !r.If {
			continue
		}
		names := strings.Fields(r.Flags)
		if r.Except != "" {
			allowed := append(strings.Fields(r.Except), alwaysAllowed...)
			o.Flags.Visit(func(f *pflag.Flag) {
				if !slices.Contains(allowed, f.Name) {
					names = append(names, f.Name)
				}
			})
		}
		for _, name := range slices.DeleteFunc(names, func(name string) bool { return !o.Changed(name) }) {
			text := "cannot be combined with " + r.Conflict
			if r.Requires != "" {
				text = "requires " + r.Requires
			}
			if r.Reason != "" {
				text += ": " + r.Reason
			}
			errs = append(errs, fmt.Errorf("--%s %s", name, text))
		}
	}
	return errors.Join(errs...)
}

// Want returns an error if the user set a flag to a value that is not valid.
func (o Options) Want(flag string, valid bool, want string) error {
	if valid || !o.Changed(flag) {
		return nil
	}
	return fmt.Errorf("--%s %v: want %s", flag, o.Flags.Lookup(flag).Value, want)
}

// WantOne returns an error if the value of a flag is none of the known words.
func WantOne(flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	last := len(known) - 1
	return fmt.Errorf("--%s %q: unknown, want %s or %s", flag, value, strings.Join(known[:last], ", "), known[last])
}

// Format holds the flags for the format and the destination of a result.
type Format struct {
	Name  string // default: text
	File  string // "": standard output
	known []string
}

// Add registers --format and --output, from whose name the format is derived by default.
func (f *Format) Add(fs *pflag.FlagSet, known []string) {
	f.known = known
	f.Name = cmp.Or(f.Name, "text")
	fs.StringVar(&f.Name, "format", f.Name, strings.Join(known, "|")+" (default: by the name of the file, else "+f.Name+")")
	fs.StringVarP(&f.File, "output", "o", "", "write to `FILE` instead of standard output")
}

// checkOutputs returns an error for each FILE of --output and flags such as --jobs-out that cannot be written.
func (o Options) checkOutputs() error {
	var errs []error
	o.Flags.Visit(func(f *pflag.Flag) {
		if kind, _ := pflag.UnquoteUsage(f); kind == "FILE" && (f.Name == "output" || strings.HasSuffix(f.Name, "-out")) {
			errs = append(errs, o.Writable(f.Name, f.Value.String()))
		}
	})
	return errors.Join(errs...)
}

// aliases maps extensions of files to formats of another name.
var aliases = map[string]string{"htm": "html", "md": "markdown", "txt": "text", "log": "text", "out": "text"}

// fileFormat matches the extension of a file that names a format, unlike a date or a version.
var fileFormat = regexp.MustCompile(`^[a-z][a-z0-9]{1,4}$`)

// Resolve sets the format: that of --format, else JSON with --json, else that of the file. It returns an error if the
// format is not known, also one that only the name of the file asks for, or a file cannot be written.
func (f *Format) Resolve(o Options) error {
	if err := o.checkOutputs(); err != nil {
		return Usage(err)
	}
	if f.File == "-" {
		f.File = ""
	}
	extension := strings.TrimPrefix(strings.ToLower(filepath.Ext(f.File)), ".")
	extension = cmp.Or(aliases[extension], extension)
	unknown := fileFormat.MatchString(extension) && !slices.Contains(f.known, extension) && extension != "json"
	switch {
	case o.Changed("format"):
	case o.JSON && !unknown:
		f.Name = "json"
	case slices.Contains(f.known, extension):
		f.Name = extension
	case unknown:
		return Usagef("--output %s: no format for this name, want one of %s, or --format", f.File, strings.Join(f.known, ", "))
	}
	if !slices.Contains(f.known, f.Name) {
		return Usagef("--format %q: unknown, want one of %s", f.Name, strings.Join(f.known, ", "))
	}
	return nil
}
