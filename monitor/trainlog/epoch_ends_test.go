package trainlog

import (
	"fmt"
	"strings"
	"testing"
)

// completedOf formats the completed epochs of each row, with a question mark where they are undecided; "-" without any.
func completedOf(rows []Row) string {
	var out []string
	for i := range rows {
		text := "-"
		if v, ok := rows[i].Completed(); ok {
			text = fmt.Sprintf("%.3g", v)
		}
		if rows[i].Undecided() {
			text += "?"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// TestRowsOfAnEpoch: where an epoch has several rows, it is complete when the next one begins, or at its held-out result; the
// epochs of the log are as it names them. One row per epoch completes it.
func TestRowsOfAnEpoch(t *testing.T) {
	for name, c := range map[string]struct{ text, named, completed string }{
		"several rows, from 0": {"epoch,step,loss\n0,10,2\n0,20,1.9\n0,30,1.8\n1,40,1.7\n1,50,1.6\n1,60,1.5\n2,70,1.4\n", "1 1 1 2 2 2 3", "1? 0 0 1 1.33 1.67 2"},
		"from 1":               {"epoch,step,loss\n1,10,2\n1,20,1.9\n2,30,1.7\n2,40,1.6\n", "1 1 2 2", "1? 0 1 1.5"},
		"steps of the epoch":   {"epoch,step,loss\n0,0,2\n0,10,1.9\n0,20,1.8\n1,0,1.7\n1,10,1.6\n", "1 1 1 2 2", "1? 0 0 1 1.33"},
		"an epoch longer":      {"epoch,step,loss\n1,50,2\n1,100,1.9\n2,150,1.7\n2,200,1.6\n2,250,1.5\n3,300,1.4\n3,350,1\n", "1 1 2 2 2 3 3", "1? 0 1 1.5 1.5 2 2.33"},
		"one row and a half":   {"epoch,step,loss\n1,100,2\n2,200,1.9\n2,300,1.7\n3,400,1.7\n", "1 2 2 3", "1? 2? 1 2"},
		"one row":              {"epoch,step,loss\n1,10,2\n2,20,1.9\n3,30,1.8\n4,40,1.7\n", "1 2 3 4", "1? 2? 3 4"},
		"one row, from 0":      {"epoch,step,test_loss\n0,9,2\n1,19,1.9\n2,29,1.8\n", "1 2 3", "1? 2? 3"},
		"resumed, more steps":  {"epoch,step,loss\n1,100,2\n2,200,1.9\n3,300,1.8\n3,350,1.8\n4,500,1.7\n5,650,1.6\n6,800,1.5\n7,950,1.4\n", "1 2 3 3 4 5 6 7", "1? 2? 3 2 3 4 6? 7?"},
		"resumed, steps at 0":  {"epoch,step,loss\n1,100,2\n2,200,1.9\n3,300,1.8\n3,100,1.8\n4,200,1.7\n5,300,1.6\n", "1 2 3 3 4 5", "1? 2? 3 3 4 5"},
		"evaluated before it":  {"epoch,step,test_loss\n0,0,3\n0,100,2\n1,200,1.9\n2,300,1.8\n3,400,1.7\n", "1 1 2 3 4", "1? 0 1 3 4"},
		"a row before it":      {"epoch,step,loss\n0,0,3\n0,100,2\n1,200,1.9\n2,300,1.8\n3,400,1.7\n", "1 1 2 3 4", "1? 0 1 2 4?"},
		"without steps":        {"epoch,loss\n1,2\n2,1.9\n", "1 2", "1 2"},
		"validated at its end": {"epoch,step,train_loss,test_loss\n1,10,2,\n1,20,1.9,3\n2,30,1.8,\n2,40,1.7,2.9\n3,50,1,\n", "1 1 2 2 3", "1? 0 1 2 2"},
		"validated within it":  {"epoch,step,train_loss,test_loss\n1,10,2,3\n1,20,1.9,3\n2,30,1.8,2\n2,40,1.7,2\n", "1 1 2 2", "1? 0 1 1.5"},
		"rows of one step":     {"epoch,step,train_loss,test_loss\n1,10,2,\n1,10,,3\n2,20,1.8,\n2,20,,2\n3,30,1,\n3,30,,2\n", "1 1 2 2 3 3", "1? 1? 2? 2? 3 3"},
		"in fractions":         {"epoch,step,loss\n0.5,5,2\n1,10,2\n1,11,2\n1.5,15,2\n", "0.5 1 1 1.5", "0.5 1 1 1.5"},
		"in fractions, from 0": {"epoch,step,loss\n0,0,2\n0.5,5,2\n1,10,2\n1.5,15,2\n", "1 0.5 1 1.5", "1? 0.5 1 1.5"},
		"JSON lines": {`{"epoch": 0, "step": 50, "loss": 2}
{"epoch": 0, "step": 100, "loss": 1.9}
{"epoch": 0, "accuracy": 0.5}
{"epoch": 1, "step": 150, "loss": 1.8}
{"epoch": 1, "step": 200, "loss": 1.7}
`, "1 1 1 2 2", "1? 0 1 1 1.5"},
		"printed dictionaries": {"{'epoch': 1, 'step': 50, 'loss': 2.0}\n{'epoch': 1, 'step': 100, 'loss': 1.9}\n{'epoch': 2, 'step': 150, 'loss': 1.8}\n{'epoch': 2, 'step': 200, 'loss': 1.8}\n",
			"1 1 2 2", "1? 0 1 1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			named := func(rows []Row) string { return strings.Trim(fmt.Sprintf("%g", values(rows, Epoch)), "[]") }
			for cut := 0; cut <= len(c.text); cut += 7 { // the agent is restarted there
				b := newBench(t, TailOptions{})
				b.write(c.text[:cut])
				b.poll()
				b.restart(TailOptions{})
				b.append(c.text[cut:])
				b.poll()
				if got := []string{named(b.rows), completedOf(b.rows)}; got[0] != c.named || got[1] != c.completed {
					t.Fatalf("cut at byte %d: named %s, completed %s; want %s, %s", cut, got[0], got[1], c.named, c.completed)
				}
			}
		})
	}
}

// TestRowsOfAnEpochInNewFile: the first row of a rewritten log, or of one that is begun again, begins an epoch.
func TestRowsOfAnEpochInNewFile(t *testing.T) {
	for name, c := range map[string]struct{ before, after, completed string }{
		"rewritten with another header": {"epoch,step,loss\n0,10,2\n0,20,1.9\n0,30,1.8\n1,40,1.7\n", "epoch,step,loss,lr\n0,10,2,\n0,20,1.9,\n0,30,1.8,\n1,40,1.7,\n1,50,1.6,\n", "1? 0 0 1 1.33"},
		"begun again, one row":          {"epoch,step,loss\n1,10,2\n", "epoch,step,loss,lr\n1,12,2,\n2,24,2,\n", "1? 1? 2?"},
		"begun again, several rows":     {"epoch,step,loss\n1,10,2\n1,20,2\n", "epoch,step,loss,lr\n1,5,2,\n1,10,1.9,\n", "1? 0 0 0"},
		"fractions":                     {"epoch,step,loss\n0,0,2\n0.5,5,2\n", "epoch,step,loss,lr\n0,0,2,\n0.5,5,2,\n1,10,2,\n", "1? 0.5 1"},
		"JSON lines":                    {"{\"epoch\": 1, \"step\": 10}\n", "{\"epoch\": 1, \"step\": 12, \"loss\": 2}\n{\"epoch\": 2, \"step\": 24}\n", "1? 1? 2?"},
	} {
		b := newBench(t, TailOptions{})
		b.write(c.before)
		b.poll()
		b.write(c.after)
		b.poll()
		want(t, name, completedOf(b.rows), c.completed)
	}
}

// TestRowsOfAnEpochOfEarlierTraining: what the rows before the training show about a log applies to its own.
func TestRowsOfAnEpochOfEarlierTraining(t *testing.T) {
	earlier := "epoch,step,loss\n1,10,2\n1,20,1.9\n2,30,1.7\n"
	b := newBench(t, TailOptions{})
	b.write(earlier + "2,10,3\n2,20,2.9\n")
	state, err := StateAt(b.path, TailOptions{}, int64(len(earlier)))
	b.ok(err)
	b.open(TailOptions{Resume: &state})
	b.poll()
	want(t, "completed", completedOf(b.rows), "1 1.5")
}

// TestRowsOfAnEpochDoneAgain: a job that starts again repeats the row of an epoch at another step, or continues within an epoch.
func TestRowsOfAnEpochDoneAgain(t *testing.T) {
	for name, c := range map[string]struct{ before, after, completed string }{
		"one row":          {"epoch,step,loss\n1,100,2\n2,200,1.9\n3,300,1.8\n", "3,350,1.8\n4,500,1.7\n5,650,1.6\n", "1? 2? 3 3 4 5"},
		"JSON lines":       {"{\"epoch\": 1, \"step\": 100}\n{\"epoch\": 2, \"step\": 200}\n", "{\"epoch\": 2, \"step\": 250}\n{\"epoch\": 3, \"step\": 400}\n", "1? 2? 2? 3"},
		"several rows":     {"epoch,step,loss\n1,10,2\n1,20,1.9\n2,30,1.8\n", "2,40,1.7\n", "1? 0 1 1.5"},
		"nothing was read": {"", "epoch,step,loss\n1,10,2\n2,20,2\n", "1? 2?"},
		"printed, one row": {"{'epoch': 1, 'step': 50, 'loss': 2.0}\n{'epoch': 2, 'step': 100, 'loss': 1.9}\n", "{'epoch': 2, 'step': 120, 'loss': 1.9}\n{'epoch': 3, 'step': 190, 'loss': 1.8}\n", "1? 2? 2? 3"},
	} {
		for _, restarted := range []bool{false, true} {
			b := newBench(t, TailOptions{})
			b.write(c.before)
			b.poll()
			if restarted {
				b.restart(TailOptions{})
			}
			b.tail.Again()
			b.append(c.after)
			b.poll()
			want(t, fmt.Sprintf("%s, restarted %t", name, restarted), completedOf(b.rows), c.completed)
		}
	}
}
