package experiment

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Command is the command line whose cells the tasks compute: each task executes it again, up to those cells.
type Command struct {
	Args []string `json:"args"`
}

// attempt is the distribution of the missing cells of one call over the tasks of a job.
type attempt struct {
	Cells int     `json:"cells"` // of the whole call
	Tasks [][]int `json:"tasks"` // cells by task
}

// maxFile bounds the size of a result.
const maxFile = 1 << 30

const commandFile = "command.json"

// Kinds of the files of a call, each followed by the number of its cell or task.
const (
	cellFile   = "cell-"   // the encoded result of a cell
	failedFile = "failed-" // the error of a cell
	beganFile  = "began-"  // attempt and task: it runs
	endedFile  = "ended-"  // attempt and task: it wrote all it could
)

func callDir(dir string, call int) string { return filepath.Join(dir, fmt.Sprintf("call-%d", call)) }

func attemptFile(number int) string { return fmt.Sprintf("attempt-%d.json", number) }

// outputFile is the output of the tasks of an attempt; the engine appends a dot and the number of the task.
func outputFile(call string, number int) string {
	return filepath.Join(call, fmt.Sprintf("output-%d", number))
}

// listing is the content of the directory of a call.
type listing struct {
	cells, failed []int
	began, ended  map[string]bool // by attempt and task
}

// list reads the directory of a call. It is opened again each time, since a network file system revalidates it then.
func list(dir string) (listing, error) {
	l := listing{began: map[string]bool{}, ended: map[string]bool{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		for prefix, into := range map[string]*[]int{cellFile: &l.cells, failedFile: &l.failed} {
			if text, ok := strings.CutPrefix(e.Name(), prefix); ok {
				if k, err := strconv.Atoi(text); err == nil {
					*into = append(*into, k)
				}
			}
		}
		for prefix, into := range map[string]map[string]bool{beganFile: l.began, endedFile: l.ended} {
			if text, ok := strings.CutPrefix(e.Name(), prefix); ok {
				into[text] = true
			}
		}
	}
	return l, nil
}

// tail returns the last lines of a file, at most n bytes; "" if it cannot be read.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > n {
		f.Seek(-n, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, n))
	return strings.TrimSpace(strings.ToValidUTF8(string(data), ""))
}
