package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sampleConfig is the documented configuration file with every setting commented out, so that it has no effect as
// written.
//
//go:embed sample.yaml
var sampleConfig string

// projectNames lists the names of a project file in search order.
var projectNames = []string{"optimize.yaml", "optimize.yml", "optimize.toml", "optimize.json"}

// configCommand returns the command that prints a configuration file.
func configCommand(e *Env) *cobra.Command {
	return &cobra.Command{Use: "config", GroupID: Setup, Short: "Print a documented configuration file", Args: cobra.NoArgs,
		Example: `  optimize config > settings.yaml    # edit it, then: optimize --config settings.yaml --train train.py`,
		RunE: func(*cobra.Command, []string) error {
			if e.JSON {
				return e.PrintJSON(map[string]any{"schema": 1, "settings": settingsJSON()})
			}
			return e.Print(sampleConfig)
		}}
}

// initCommand returns the command that writes a project file.
func initCommand(e *Env) *cobra.Command {
	return &cobra.Command{Use: "init", GroupID: Setup, Short: "Write a commented project file optimize.yaml", Args: cobra.NoArgs,
		Long: `Write a commented project file optimize.yaml into the working directory.

Every setting in it is commented out, so it has no effect until it is edited. It applies to trainings and predictions
started in this directory or below it, down to the next repository root; --config FILE selects another file, --config none
reads no file.`,
		Example: `  optimize init && $EDITOR optimize.yaml`,
		RunE: func(*cobra.Command, []string) error {
			for _, n := range projectNames {
				if _, err := os.Lstat(filepath.Join(e.Dir, n)); err == nil {
					return Usagef("write project file: %s exists; edit or remove it", n)
				}
			}
			path := filepath.Join(e.Dir, projectNames[0])
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if err == nil {
				_, err = f.WriteString(sampleConfig)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				return fmt.Errorf("write project file: %w", err)
			}
			if e.JSON {
				return e.PrintJSON(map[string]any{"schema": 1, "file": path})
			}
			_, err = fmt.Fprintf(e.Stdout, "wrote %s: every setting in it is commented out\n", projectNames[0])
			return err
		}}
}

// ProjectSettings returns the settings of a command that starts or plans trainings, from the file given by --config or
// from the project file.
func (e *Env) ProjectSettings(flags *pflag.FlagSet) (*Values, error) {
	if e.Config != "" {
		return e.LoadSettings(flags, e.Config)
	}
	file, err := projectFile(e.Dir, e.Getenv("HOME"), os.Getuid())
	if err != nil {
		return nil, err
	}
	if file != "" && !e.Quiet {
		fmt.Fprintf(e.Stderr, "configuration: %s\n", e.ShortPath(file))
	}
	return e.LoadSettings(flags, file)
}

// ShortPath returns a path relative to the working directory if that is shorter. Text may follow the path.
func (e *Env) ShortPath(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	if rel, err := filepath.Rel(e.Dir, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}

// projectFile finds the project file for a working directory: in the directory itself or in the nearest parent that has
// one, up to the root of its repository, otherwise up to the home directory. Outside both, only the directory itself is
// searched. A file owned by another user except root is an error because it could name programs to run. The result is
// "" if no file exists.
func projectFile(dir, home string, uid int) (string, error) {
	for _, d := range projectDirs(dir, home) {
		for _, n := range projectNames {
			path := filepath.Join(d, n)
			st, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return "", fmt.Errorf("read configuration %s: %w; --config none reads no file", path, err)
			case !st.Mode().IsRegular():
				return "", fmt.Errorf("read configuration %s: not a regular file; --config none reads no file", path)
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != uid && sys.Uid != 0 {
				return "", fmt.Errorf("read configuration %s: owned by another user; name it with --config, or use --config none", path)
			}
			return path, nil
		}
	}
	return "", nil
}

// projectDirs returns the directories to search for a project file, nearest first.
func projectDirs(dir, home string) []string {
	var up []string
	belowHome := 0
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		up = append(up, d)
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return up
		}
		if home != "" && d == filepath.Clean(home) {
			belowHome = len(up)
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	return up[:max(1, belowHome)]
}
