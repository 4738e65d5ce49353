package trainlog

import (
	"strings"
	"testing"
)

// TestStdoutCountOfWholeTraining: a count beside the epoch that continues in the next one is that of the whole training, as is
// that of a global step; one that begins again is that of the epoch.
func TestStdoutCountOfWholeTraining(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one bar": {"epoch 1/4\nsteps: 12%|# | 50/400 [00:10<01:10, loss=1]\nsteps: 25%|## | 100/400 [00:20<01:00, loss=1]\nepoch 2/4\nsteps: 37%|### | 150/400 [00:30<00:50, loss=1]\n",
			[]string{"total_epochs=4", "epoch=0.125 total_epochs=4 train_loss=1", "epoch=0.25 total_epochs=4 train_loss=1", "epoch=1 total_epochs=4", "epoch=1.5 total_epochs=4 train_loss=1"}},
		"global steps, PaddleNLP": {"global step 100/300, epoch: 0, batch: 99, rank_id: 0, loss: 1\nglobal step 200/300, epoch: 1, batch: 99, rank_id: 0, loss: 1\n",
			[]string{"step=100 total_steps=300 train_loss=1", "epoch=1 step=200 total_steps=300 train_loss=1"}},
		"global steps of known epochs": {"Epoch 1/4 global_step 50/400 loss 1\nEpoch 2/4 global_step 500/400 loss 1\n",
			[]string{"epoch=0.5 total_epochs=4 train_loss=1", "epoch=4 total_epochs=4 train_loss=1"}},
		"iterations": {"Epoch 1/4 | Iter 50/400 | loss 1\nEpoch 1/4 | Iter 100/400 | loss 1\nEpoch 2/4 | Iter 150/400 | loss 1\nval loss: 3\nEpoch 2/4 | Iter 10/20 | loss 2\nEpoch 2/4 | Iter 200/400 | loss 1\n",
			[]string{"epoch=0.125 total_epochs=4 train_loss=1", "epoch=0.25 total_epochs=4 train_loss=1", "epoch=1.5 total_epochs=4 train_loss=1", "total_epochs=4 test_loss=3", "total_epochs=4 train_loss=2", "epoch=2 total_epochs=4 train_loss=1"}},
		"iterations of unknown epochs": {"Epoch 1 | Iter 50/400\nEpoch 1 | Iter 100/400\nEpoch 2 | Iter 150/400\nEpoch 2 | Iter 200/400\nEpoch 3 | Iter 250/400\nEpoch 3 | Iter 300/400\n",
			[]string{"epoch=0.125", "epoch=0.25", "epoch=1.375", "epoch=1.5", "epoch=2 step=250 total_steps=400", "epoch=2 step=300 total_steps=400"}},
		"iterations of the epoch": {"Epoch 1/4 | Iter 200/400\nEpoch 1/4 | Iter 400/400\nEpoch 2/4 | Iter 200/400\nEpoch 2/4 | Iter 400/400\nEpoch 3/4 | Iter 200/400\n",
			[]string{"epoch=0.5 total_epochs=4", "epoch=1 total_epochs=4", "epoch=1.5 total_epochs=4", "epoch=2 total_epochs=4", "epoch=2.5 total_epochs=4"}},
		"iterations of the epoch, a line for each": {"Epoch 1/20 | Iter 100/400\nEpoch 2/20 | Iter 150/400\nEpoch 3/20 | Iter 200/400\n",
			[]string{"epoch=0.25 total_epochs=20", "epoch=1.375 total_epochs=20", "epoch=2.5 total_epochs=20"}},
	} {
		for cut := range c.text { // the agent is restarted there
			if cut > 0 && c.text[cut-1] != '\n' {
				continue
			}
			b := newBench(t, TailOptions{Format: "stdout"})
			b.write(c.text[:cut])
			b.poll()
			b.restart(TailOptions{Format: "stdout"})
			b.append(c.text[cut:])
			b.poll()
			want(t, name, strings.Join(progressOf(b.rows), "\n"), strings.Join(c.want, "\n"))
		}
	}
}
