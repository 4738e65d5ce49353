package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
)

// logsPoll is the interval at which a followed log is read.
const logsPoll = 200 * time.Millisecond

func logsCommand(e *env, c *common) *cobra.Command {
	var follow, stdout, stderr bool
	var lines int
	cmd := &cobra.Command{
		Use: "logs [RUN]", Short: "Show the output of a run (default: the latest)", Args: cobra.MaximumNArgs(1),
		Long: `What the job of a run printed: its standard error, then its standard output, rotated parts included; with
--follow also what comes, until the run ends.`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref := "latest"
		if len(args) == 1 {
			ref = args[0]
		}
		if lines < -1 {
			return usageError{fmt.Errorf("--lines %d: want 0 or more", lines)}
		}
		dir, err := findRun(e, c, ref)
		if err != nil {
			return err
		}
		both := stdout == stderr
		ctx, stop := signal.NotifyContext(cmdContext(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		out := e.stdout
		if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			out = &harmless{to: out}
		}
		var streams []*stream
		for _, s := range []struct {
			name string
			want bool
		}{{"job.stderr", stderr || both}, {"job.stdout", stdout || both}} {
			if s.want {
				streams = append(streams, &stream{path: filepath.Join(dir, s.name)})
			}
		}
		return printLogs(ctx, out, dir, streams, lines, follow)
	}
	fs := cmd.Flags()
	fs.BoolVarP(&follow, "follow", "f", false, "follow the output until the run ends")
	fs.BoolVar(&stdout, "stdout", false, "standard output only")
	fs.BoolVar(&stderr, "stderr", false, "standard error only")
	fs.IntVarP(&lines, "lines", "n", -1, "only the last `LINES` of each")
	return cmd
}

// printLogs copies the streams of a run; with follow it continues until the run ends or ctx is cancelled.
func printLogs(ctx context.Context, out io.Writer, dir string, streams []*stream, lines int, follow bool) error {
	found := false
	for _, s := range streams {
		ok, err := s.begin(lines)
		if err != nil {
			return err
		}
		found = found || ok
	}
	if !found && !follow {
		return fmt.Errorf("read the output of %s: its job has printed nothing that is kept", filepath.Base(dir))
	}
	for {
		over := !follow || !stillRuns(dir) // checked before reading, so that the last lines are included
		for _, s := range streams {
			if err := s.copy(out); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logsPoll):
		}
	}
}

// stillRuns reports whether an agent is working on the run or its job is alive without one.
func stillRuns(dir string) bool {
	if journal.HolderOf(dir) != nil {
		return true
	}
	return launch.Living(dir)
}

// stream is one output stream of a job: PATH.1, the older, rotated part, followed by PATH.
type stream struct {
	path string
	file *os.File
}

// begin opens the stream at its oldest part or, if n ≥ 0, at its last n lines. found is false if no file exists.
func (s *stream) begin(n int) (found bool, err error) {
	older, err := openRegular(s.path + ".1")
	if err != nil {
		return false, err
	}
	newer, err := openRegular(s.path)
	if err != nil || older == nil && newer == nil {
		return false, errors.Join(err, closeFile(older))
	}
	if n >= 0 && newer != nil {
		rest, err := fromLastLines(newer, n)
		if err != nil {
			return false, errors.Join(err, closeFile(older), newer.Close())
		}
		if older != nil && rest > 0 {
			_, err = fromLastLines(older, rest)
		} else if older != nil {
			err = older.Close()
			older = nil
		}
		if err != nil {
			return false, err
		}
	}
	if s.file = newer; older != nil {
		s.file = older
		return true, closeFile(newer) // copy opens it later, from the beginning
	}
	return true, nil
}

// copy writes the data added since the last call, across rotations.
func (s *stream) copy(out io.Writer) error {
	for {
		if s.file == nil {
			f, err := openRegular(s.path)
			if err != nil || f == nil {
				return err
			}
			s.file = f
		}
		if _, err := io.Copy(out, s.file); err != nil {
			return fmt.Errorf("copy %s: %w", s.path, err)
		}
		here, err := s.file.Stat()
		if err != nil {
			return err
		}
		now, err := os.Stat(s.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(here, now) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, s.file); err != nil { // written between the copy and the rename
			return fmt.Errorf("copy %s: %w", s.path, err)
		}
		s.file.Close()
		s.file = nil
	}
}

// openRegular opens a regular file; the result is nil if it does not exist.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("read %s: not a plain file", path), err, f.Close())
	}
	return f, nil
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// fromLastLines seeks to the beginning of the last n lines; missing is the number of lines by which the file is too
// short.
func fromLastLines(f *os.File, n int) (missing int, err error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for at := end; at > 0; {
		from := max(0, at-int64(len(buf)))
		k, err := f.ReadAt(buf[:at-from], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		part := buf[:k]
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			if from+int64(i)+1 < end { // the end of the last line does not begin a line
				if n--; n == 0 {
					_, err = f.Seek(from+int64(i)+1, io.SeekStart)
					return 0, err
				}
			} else if n == 0 {
				return 0, nil
			}
			part = part[:i]
		}
		at = from
	}
	if n == 0 {
		return 0, nil
	}
	if end > 0 {
		n-- // the first line of the file
	}
	_, err = f.Seek(0, io.SeekStart)
	return n, err
}

// harmless is a writer that removes terminal control from text: it passes only colours among escape sequences and only
// line feed, carriage return and tab among control characters. It is a state machine over a stream, in which a sequence
// may be split between writes.
type harmless struct {
	to    io.Writer
	state byte   // 0 text, 'e' after ESC, '[' in a control sequence, 's' in a string terminated by ST or BEL, 'S' after ESC in one, 'x' in another sequence
	seq   []byte // the current sequence
	c1    bool   // after 0xC2, which may start a control character in UTF-8
}

// sequenceLimit is the maximum length in bytes of a colour sequence that is passed on.
const sequenceLimit = 64

func (h *harmless) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, b := range p {
		out = h.next(out, b)
	}
	if _, err := h.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next processes one byte and appends the bytes to be written to out.
func (h *harmless) next(out []byte, b byte) []byte {
	if h.c1 {
		h.c1 = false
		if b >= 0x80 && b < 0xa0 {
			return out
		}
		out = append(out, 0xc2)
	}
	switch h.state {
	case 'e':
		h.state = 0
		switch {
		case b == '[':
			h.state, h.seq = '[', append(h.seq[:0], 0x1b, '[')
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			h.state = 's'
		case b >= 0x20 && b < 0x30:
			h.state = 'x'
		}
		return out
	case '[':
		h.seq = append(h.seq, b)
		if b >= 0x40 && b < 0x7f {
			h.state = 0
			if b == 'm' && len(h.seq) <= sequenceLimit {
				return append(out, h.seq...)
			}
		} else if b < 0x20 || b >= 0x7f {
			h.state = 0
		} else if len(h.seq) > sequenceLimit {
			h.seq = h.seq[:sequenceLimit+1]
		}
		return out
	case 's':
		if b == 0x07 {
			h.state = 0
		} else if b == 0x1b {
			h.state = 'S'
		} else if b == '\n' { // strings contain no line feed: the job died within one
			h.state = 0
			return append(out, b)
		}
		return out
	case 'S':
		h.state = 's'
		if b == '\\' {
			h.state = 0
		}
		return out
	case 'x':
		if b >= 0x30 {
			h.state = 0
		}
		return out
	}
	switch {
	case b == 0x1b:
		h.state = 'e'
	case b == 0xc2:
		h.c1 = true
	case b < 0x20 && b != '\n' && b != '\r' && b != '\t' || b == 0x7f:
	default:
		out = append(out, b)
	}
	return out
}
