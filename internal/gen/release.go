package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// release describes the version that is built.
type release struct {
	version, commit string
	date            time.Time
	maintainer      string // of the Debian package, NAME <ADDRESS>
	out             string
}

// architectures lists the architectures of the binaries, by the names that Go and Debian use for both.
var architectures = []string{"amd64", "arm64"}

// makeRelease builds what is published of a version: static binaries for linux/amd64 and linux/arm64 in archives with the
// manual pages and shell completions, Debian packages, a software bill of materials, a container file, and checksums. The
// same commit gives the same bytes.
//
// Static binaries are built without cgo and contain no NVML (GPU readings); if a C compiler is present, the archive and
// the package for the architecture of this machine are also built with it, and depend on glibc.
func makeRelease(args []string, _ io.Writer) (err error) {
	var r release
	var date string
	flags := flag.NewFlagSet("gen release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "version, such as 1.2.0")
	flags.StringVar(&r.commit, "commit", "", "commit")
	flags.StringVar(&date, "date", "", "date of the commit, RFC 3339")
	flags.StringVar(&r.maintainer, "maintainer", "optimize <optimize@localhost>", "maintainer of the Debian package")
	flags.StringVar(&r.out, "out", "dist", "directory to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return fmt.Errorf("read --date: %w", err)
	}
	return r.build()
}

// variant is one build of the program.
type variant struct {
	arch string
	cgo  bool
}

// suffix returns the part of a file name that distinguishes the variant.
func (v variant) suffix() string {
	if v.cgo {
		return v.arch + "_glibc"
	}
	return v.arch
}

// build writes all files.
func (r release) build() error {
	r.date = r.date.UTC()
	r.version = strings.TrimPrefix(r.version, "v")
	if r.version == "" {
		return fmt.Errorf("build: -version is empty")
	}
	work, err := os.MkdirTemp("", "optimize-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	variants := []variant{}
	for _, arch := range architectures {
		variants = append(variants, variant{arch, false})
	}
	if _, err := exec.LookPath("cc"); err == nil {
		variants = append(variants, variant{runtime.GOARCH, true})
	}
	for _, v := range variants {
		fmt.Printf("building linux/%s\n", v.suffix())
		if err := r.compile(v, filepath.Join(work, v.suffix())); err != nil {
			return err
		}
	}
	documents, err := documents(filepath.Join(work, runtime.GOARCH), filepath.Join(work, "documents"))
	if err != nil {
		return err
	}
	for _, v := range variants {
		if err := r.publish(v, filepath.Join(work, v.suffix()), documents); err != nil {
			return err
		}
	}
	container, err := os.ReadFile(filepath.Join("internal", "gen", "Containerfile"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.out, "Containerfile"), container, 0o644)
	}
	if err != nil {
		return err
	}
	return r.checksums()
}

// compile builds one variant of the program.
func (r release) compile(v variant, to string) error {
	link := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.date.Format(time.RFC3339))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", link, "-o", to, "./cmd/optimize")
	cgo := "CGO_ENABLED=0"
	if v.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+v.arch, cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build linux/%s: %w\n%s", v.suffix(), err, out)
	}
	return nil
}

// file is a file of an archive or a package.
type file struct {
	path string // below the prefix, such as bin/optimize
	mode fs.FileMode
	data []byte
}

// documents runs a binary to write its manual pages and completions, and returns these with the README.
func documents(binary, dir string) ([]file, error) {
	run := func(args ...string) ([]byte, error) {
		out, err := exec.Command(binary, args...).Output()
		if err != nil {
			err = fmt.Errorf("run optimize %s: %w", strings.Join(args, " "), err)
		}
		return out, err
	}
	if _, err := run("man", dir); err != nil {
		return nil, err
	}
	var out []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, file{"share/man/man1/" + d.Name(), 0o644, data})
		return err
	})
	if err != nil {
		return nil, err
	}
	for shell, path := range map[string]string{"bash": "share/bash-completion/completions/optimize", "zsh": "share/zsh/vendor-completions/_optimize",
		"fish": "share/fish/vendor_completions.d/optimize.fish"} {
		script, err := run("completion", shell)
		if err != nil {
			return nil, err
		}
		out = append(out, file{path, 0o644, script})
	}
	readme, err := os.ReadFile("README.md")
	out = append(out, file{"share/doc/optimize/README.md", 0o644, readme})
	return out, err
}

// publish writes the archive, the bill of materials and, for the variant that a package contains, the package.
func (r release) publish(v variant, binary string, documents []file) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := append([]file{{"bin/optimize", 0o755, data}}, documents...)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	name := fmt.Sprintf("optimize_%s_linux_%s", r.version, v.suffix())
	archive, err := tarGzip(files, strings.TrimPrefix(name, "./")+"/", r.date)
	if err != nil {
		return err
	}
	bill, err := billOfMaterials(binary, r)
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{name + ".tar.gz": archive, name + ".cdx.json": bill, "optimize-linux-" + v.suffix(): data} {
		if err := os.WriteFile(filepath.Join(r.out, path), content, modeOf(path)); err != nil {
			return err
		}
	}
	pack, err := debianPackage(r, v, binary, files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("optimize_%s_%s.deb", debianVersion(r.version), v.suffix())), pack, 0o644)
}

// modeOf returns the mode of a published file: binaries can be executed.
func modeOf(path string) fs.FileMode {
	if strings.HasPrefix(path, "optimize-linux-") {
		return 0o755
	}
	return 0o644
}

// checksums writes SHA256SUMS for `sha256sum -c`.
func (r release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == "SHA256SUMS" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
