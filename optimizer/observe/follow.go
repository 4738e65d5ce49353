package observe

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// chunk is the number of bytes of a file read at a time.
const chunk = 256 << 10

// follower reads the complete lines of one process's file, in order.
type follower struct {
	path    string
	pid     int
	offset  int64
	number  int
	pending []line // read, but not yet taken
	last    float64
	more    bool // the file contained more than was read
	skip    bool // inside an overlong line
	lost    int  // number of overlong or invalid lines
}

// fill reads the next chunk if no line is pending, and returns the number of bytes read. An unreadable file yields no
// lines until the next call.
func (f *follower) fill() int {
	f.more = false
	file, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	s, err := file.Stat()
	if err != nil || !s.Mode().IsRegular() || s.Size() <= f.offset {
		return 0
	}
	text := make([]byte, min(chunk, s.Size()-f.offset))
	n, err := file.ReadAt(text, f.offset)
	if err != nil && err != io.EOF {
		return 0
	}
	used := f.lines(text[:n])
	f.offset += int64(used)
	f.more = used > 0 && f.offset < s.Size()
	return n
}

// lines processes the complete lines of text and returns their total length. The beginning of a line longer than
// maxLine counts as complete, so that reading always advances.
func (f *follower) lines(text []byte) (used int) {
	for {
		end := bytes.IndexByte(text[used:], '\n')
		if end < 0 {
			if len(text)-used > maxLine {
				f.skip = true
				return len(text)
			}
			return used
		}
		l := text[used : used+end]
		used += end + 1
		f.number++
		decoded, ok := line{}, false
		if !f.skip && len(l) <= maxLine {
			decoded, ok = decode(l, f.pid)
		}
		f.skip = false
		if !ok {
			f.lost++
			continue
		}
		if decoded.Event == "start" {
			f.last = 0
		}
		decoded.Mono = max(decoded.Mono, f.last) // the order in the file is the order of time
		f.last, decoded.number = decoded.Mono, f.number
		f.pending = append(f.pending, decoded)
	}
}

// processFiles adds to known the files below dir that contain reports of processes, up to limit files.
func processFiles(dir string, known map[int]*follower, limit int) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(16 * limit)
	if err != nil && err != io.EOF {
		return err
	}
	for _, name := range names {
		pid, ok := processID(name)
		if ok && known[pid] == nil && len(known) < limit {
			known[pid] = &follower{path: filepath.Join(dir, name), pid: pid}
		}
	}
	return nil
}
