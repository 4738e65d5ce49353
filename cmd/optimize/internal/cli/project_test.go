package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProjectFile checks that the nearest file upwards is used, up to the root of the repository or the home directory.
func TestProjectFile(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // created below the root; a trailing slash denotes a directory
		dir   string
		home  string
		want  string
	}{
		"in the directory":                {[]string{"a/optimize.yaml"}, "a", "", "a/optimize.yaml"},
		"none":                            {[]string{"a/other.yaml"}, "a", "", ""},
		"above, in a repository":          {[]string{"r/.git/", "r/optimize.yaml", "r/x/y/"}, "r/x/y", "", "r/optimize.yaml"},
		"the nearest":                     {[]string{"r/.git/", "r/optimize.yaml", "r/x/optimize.toml", "r/x/y/"}, "r/x/y", "", "r/x/optimize.toml"},
		"not above the repository":        {[]string{"optimize.yaml", "r/.git/"}, "r", "", ""},
		"above, below home":               {[]string{"h/optimize.yaml", "h/x/y/"}, "h/x/y", "h", "h/optimize.yaml"},
		"not above home":                  {[]string{"optimize.yaml", "h/x/"}, "h/x", "h", ""},
		"not above, outside of both":      {[]string{"optimize.yaml", "x/"}, "x", "h", ""},
		"YAML before the other languages": {[]string{"a/optimize.json", "a/optimize.yaml"}, "a", "", "a/optimize.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, f := range c.files {
				path := filepath.Join(root, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(f, "/") {
					if err := os.MkdirAll(path, 0o700); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			home := ""
			if c.home != "" {
				home = filepath.Join(root, c.home)
			}
			got, err := projectFile(filepath.Join(root, c.dir), home, os.Getuid())
			if got != "" {
				got, _ = filepath.Rel(root, got)
			}
			if err != nil || got != c.want {
				t.Errorf("have %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// TestProjectFileRefused checks that a file of another user and a path that is not a regular file are errors that name
// the alternative.
func TestProjectFileRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "optimize.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := projectFile(dir, "", os.Getuid()); err == nil || !strings.Contains(err.Error(), "--config none") {
		t.Errorf("a directory: %v", err)
	}
	if os.Getuid() != 0 {
		return // only root can change the owner of a file
	}
	other := t.TempDir()
	path := filepath.Join(other, "optimize.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Skipf("cannot give a file away here: %v", err)
	}
	if _, err := projectFile(other, "", 0); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a file of another user: %v", err)
	}
}
