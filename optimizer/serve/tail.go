package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// position is a place in a file: the file's inode, because files are rotated and rewritten, and the offset in it. The
// zero position is none.
type position struct {
	file   uint64
	offset int64
}

func (p position) String() string {
	return strconv.FormatUint(p.file, 36) + "." + strconv.FormatInt(p.offset, 36)
}

// parsePosition is the inverse of String; the zero position for other text.
func parsePosition(text string) position {
	file, offset, ok := strings.Cut(text, ".")
	f, err := strconv.ParseUint(file, 36, 64)
	o, err2 := strconv.ParseInt(offset, 36, 64)
	if !ok || err != nil || err2 != nil || o < 0 {
		return position{}
	}
	return position{f, o}
}

// piece is a part of a file, prepared for readers, that ends at an offset.
type piece struct {
	end  int64
	data []byte
}

// tail follows the complete lines of a growing file that may be replaced, and keeps the newest of them. Its owner reads
// it from one goroutine at a time.
type tail struct {
	path string
	keep int                      // bytes of prepared pieces that are kept
	turn func(line []byte) []byte // prepares a line; nil keeps it. The result may be empty

	file   *os.File
	inode  uint64
	offset int64 // up to which the file was read, in complete lines
	from   int64 // offset at which the kept pieces begin
	pieces []piece
	size   int // bytes in pieces
}

// read reads what was added. It reports whether there is anything new for readers. A file that does not exist is empty.
func (t *tail) read() (changed bool, err error) {
	info, err := os.Lstat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("follow %s: not a regular file", t.path)
	}
	inode := inodeOf(info)
	if t.file == nil || inode != t.inode || info.Size() < t.offset {
		if err := t.reopen(); err != nil {
			return false, err
		}
		changed = true
	}
	for {
		more, err := t.step()
		changed = changed || more
		if !more || err != nil {
			return changed, err
		}
	}
}

// reopen starts with the present file, near its end.
func (t *tail) reopen() error {
	t.close()
	f, err := os.OpenFile(t.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return errors.Join(err, fmt.Errorf("follow %s: not a regular file", t.path))
	}
	t.file, t.inode, t.offset, t.pieces, t.size = f, inodeOf(info), 0, nil, 0
	if skip := info.Size() - int64(t.keep); skip > 0 {
		buf := make([]byte, min(t.keep, 64<<10))
		n, _ := f.ReadAt(buf, skip)
		if at := bytes.IndexByte(buf[:n], '\n'); at >= 0 {
			skip += int64(at) + 1
		}
		t.offset = skip
	}
	t.from = t.offset
	return nil
}

func (t *tail) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

// step reads the next complete lines.
func (t *tail) step() (more bool, err error) {
	buf := make([]byte, 64<<10)
	n, err := t.file.ReadAt(buf, t.offset)
	if err != nil && err != io.EOF {
		return false, err
	}
	whole := bytes.LastIndexAny(buf[:n], "\n\r") + 1
	if whole == 0 && n == len(buf) { // a line longer than the buffer
		whole = n
	}
	if whole == 0 {
		return false, nil
	}
	for line := range bytes.Lines(buf[:whole]) { // one piece per line, so that any position between lines can be continued
		t.offset += int64(len(line))
		if t.turn != nil {
			line = t.turn(line)
		}
		t.pieces = append(t.pieces, piece{t.offset, bytes.Clone(line)})
		t.size += len(line)
	}
	for t.size > t.keep && len(t.pieces) > 1 {
		t.size -= len(t.pieces[0].data)
		t.from = t.pieces[0].end
		t.pieces = t.pieces[1:]
	}
	return true, nil
}

// at returns the position up to which the tail was read.
func (t *tail) at() position { return position{t.inode, t.offset} }

// since returns what follows a position. reset reports that the position is not known any more: data is then all that is
// kept, and replaces what a reader has.
func (t *tail) since(p position) (data []byte, reset bool) {
	if p.file != t.inode || p.offset < t.from || p.offset > t.offset {
		p, reset = position{t.inode, t.from}, true
	}
	var b bytes.Buffer
	first, _ := slices.BinarySearchFunc(t.pieces, p.offset, func(part piece, offset int64) int {
		if part.end <= offset {
			return -1
		}
		return 1
	})
	for _, part := range t.pieces[first:] {
		b.Write(part.data)
	}
	return b.Bytes(), reset
}

func inodeOf(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
