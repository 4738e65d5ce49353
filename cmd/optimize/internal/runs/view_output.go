package runs

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
)

// jobOutput returns new lines of the output of a job for the display of its run, while it is on.
type jobOutput struct {
	on      bool
	dir     func(runID string) string
	streams []*launch.Output // standard error, standard output; nil until they are opened
	rest    []bytes.Buffer   // the incomplete last line of each
}

const (
	// outputBefore is the number of earlier lines of each stream that are shown when the output is switched on.
	outputBefore = 10
	// outputLimit is the maximum number of lines shown at once, of those that a job prints within an interval of the display.
	outputLimit = 40
)

// next returns the complete lines since the last call. Failures to read are not errors: the output is displayed, and kept
// in files, beside the run.
func (o *jobOutput) next(runID string) []string {
	if !o.on || o.dir == nil {
		return nil
	}
	if o.streams == nil {
		stdout, stderr := launch.Outputs(o.dir(runID))
		o.streams, o.rest = []*launch.Output{stderr, stdout}, make([]bytes.Buffer, 2)
		for _, s := range o.streams {
			_, _ = s.Open(outputBefore)
		}
	}
	var out []string
	for i, s := range o.streams {
		var text bytes.Buffer
		text.Write(o.rest[i].Bytes())
		o.rest[i].Reset()
		_ = s.Copy(&text)
		end := bytes.LastIndexByte(text.Bytes(), '\n') + 1
		o.rest[i].Write(text.Bytes()[end:])
		for line := range strings.Lines(string(text.Bytes()[:end])) {
			out = append(out, shownLine(line))
		}
	}
	if n := len(out) - outputLimit; n > 0 {
		out = append([]string{fmt.Sprintf("… %s left out; all: optimize logs %s", page.Plural(n, "line"), runID)}, out[n:]...)
	}
	return out
}

// colors matches the sequences that set colors, the only ones that terminalFilter passes on.
var colors = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// shownLine returns a line of output as a terminal shows it at its end: what follows the last carriage return, without
// control characters.
func shownLine(line string) string {
	line = strings.TrimRight(line, "\r\n")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	var b strings.Builder
	filter := &terminalFilter{to: &b}
	_, _ = filter.Write([]byte(line))
	text := cli.OneLine(colors.ReplaceAllString(b.String(), ""))
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "?")
	}
	return text
}

// toggle switches the output on or off.
func (o *jobOutput) toggle() {
	o.on, o.streams = !o.on, nil
}

// keyboard reads single keys from a terminal without waiting for the return key. Keys that send a signal keep doing so.
type keyboard struct {
	fd      int
	saved   *unix.Termios
	presses atomic.Int32 // of outputKey since the last call of pressed
	closed  atomic.Bool
	mode    sync.Mutex // held while the mode of the terminal is changed
}

// closeView restores the terminal after a run, however it ended.
func closeView(v run.View) {
	if s, ok := v.(*screen); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.close()
	}
}

// outputKey switches the output of the job on and off.
const outputKey = 'o'

// keyPoll is the interval in milliseconds at which the keyboard checks whether it was closed.
const keyPoll = 200

// openKeyboard starts to read keys; nil if in is not a terminal in the foreground of which this process is.
func openKeyboard(in any) *keyboard {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	k := &keyboard{fd: int(file.Fd())}
	if !k.foreground() {
		return nil
	}
	saved, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil {
		return nil
	}
	if k.saved = saved; !k.singleKeys() {
		return nil
	}
	go k.read()
	return k
}

// singleKeys sets the terminal to single keys without echo, which a shell undoes while this process is suspended; false after
// close, or if the terminal cannot be changed.
func (k *keyboard) singleKeys() bool {
	k.mode.Lock()
	defer k.mode.Unlock()
	now, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if k.closed.Load() || err != nil {
		return false
	}
	if now.Lflag&unix.ICANON == 0 {
		return true
	}
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(k.fd, unix.TCSETS, now) == nil
}

// foreground reports whether this process may use the terminal: one in the background would be stopped.
func (k *keyboard) foreground() bool {
	group, err := unix.IoctlGetInt(k.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (k *keyboard) read() {
	key := make([]byte, 1)
	for !k.closed.Load() {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}, keyPoll)
		if err != nil && err != unix.EINTR {
			return
		}
		if !k.foreground() { // the input, which may stay unread, is that of another program
			time.Sleep(keyPoll * time.Millisecond)
			continue
		}
		if !k.singleKeys() || ready <= 0 {
			continue
		}
		n, err := unix.Read(k.fd, key)
		if err != nil && err != unix.EINTR || err == nil && n == 0 {
			return
		}
		if n == 1 && key[0] == outputKey {
			k.presses.Add(1)
		}
	}
}

// pressed reports whether the key was pressed an odd number of times since the last call.
func (k *keyboard) pressed() bool { return k != nil && k.presses.Swap(0)%2 == 1 }

// close restores the terminal.
func (k *keyboard) close() {
	if k == nil {
		return
	}
	k.mode.Lock()
	defer k.mode.Unlock()
	if !k.closed.Swap(true) && k.foreground() {
		_ = unix.IoctlSetTermios(k.fd, unix.TCSETS, k.saved)
	}
}
