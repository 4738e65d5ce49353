package trainlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Output of real programs, captured on a pipe, with the expected position: epochs, total epochs, steps, total steps;
// 0 where the output does not reveal it. The programs are small trainings in the style of each library's tutorial,
// nanoGPT, makemore, two of PyTorch's examples and two of cleanrl.
var captured = map[string]struct{ epoch, epochs, step, steps float64 }{
	"abbreviated.stdout":         {0, 0, 12, 12}, // "Ep:3/12" may be an episode
	"aligned.stdout":             {12, 12, 0, 0}, // "EPOCH   3/12 ---" is no header of a table
	"cleanrl_dqn.stdout":         {},             // "SPS: 1390" is a rate
	"cleanrl_ppo.stdout":         {},             // likewise
	"columns.stdout":             {12, 0, 0, 0},  // "Epoch   12 | train 0.08 | val 0.08"
	"dictionary.stdout":          {12, 0, 0, 0},  // "{'epoch': 11, 'loss': 0.08}" after one of epoch 0
	"hf.stderr":                  {0, 0, 30, 30}, // three bars: training, validation, saving
	"hf.stdout":                  {3, 0, 0, 0},   // after "Namespace(epochs=12, steps=500, lr=0.1)"
	"hf_notqdm.stdout":           {3, 0, 0, 0},
	"keras.stdout":               {6, 6, 0, 0},
	"keras_verbose2.stdout":      {6, 6, 0, 0},
	"lightgbm.stdout":            {0, 0, 60, 0},
	"lightning.stderr":           {4, 4, 0, 0},
	"lightning.stdout":           {4, 4, 0, 0}, // "Epoch 3/3" is the fourth
	"lightning_tqdm.stderr":      {4, 4, 0, 0},
	"lightning_tqdm.stdout":      {4, 0, 0, 0}, // "Epoch 3:" is the fourth, without a total
	"makemore.stdout":            {0, 0, 50, 0},
	"nanogpt.stdout":             {0, 0, 40, 0},
	"one_line.stdout":            {0, 0, 6, 6},  // "..... [1/6]..... [2/6]…" in one line
	"pyg.stdout":                 {12, 0, 0, 0}, // "Epoch: 011, Train: 0.0833, Val: 0.0833" is the twelfth
	"sb3.stdout":                 {0, 0, 1024, 0},
	"sklearn_mlp.stdout":         {0, 0, 12, 0},
	"sklearn_partial_fit.stdout": {12, 0, 0, 0},   // after "Namespace(n_epochs=12, lr=0.1)"
	"spacy.stdout":               {6, 0, 1000, 0}, // "E  #" are complete epochs and steps
	"torch_mnist.stdout":         {2, 0, 0, 0},
	"trl_sft.stderr":             {}, // bars of the preparation; that of the training was drawn for less than five seconds
	"trl_sft.stdout":             {0.6, 0, 0, 0},
	"ultralytics.stdout":         {4, 4, 0, 0}, // after "epochs=4" and two bars of scanning
	"word_lm.stdout":             {3, 0, 0, 0},
	"xgboost.stdout":             {0, 0, 150, 0}, // [149] is the last
}

func TestCapturedOutput(t *testing.T) {
	files, err := filepath.Glob("testdata/captured/*")
	if err != nil || len(files) != len(captured) {
		t.Fatalf("%d captures, %d expectations (%v)", len(files), len(captured), err)
	}
	for name, c := range captured {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata/captured", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range []int{len(data) + 1, 61} {
				b := newBench(t, TailOptions{Format: "stdout"})
				for i := 0; i < len(data); i += piece {
					b.append(string(data[i:min(i+piece, len(data))]))
					b.poll()
				}
				rows, err := b.tail.Finish(b.now)
				b.ok(err)
				var last [4]float64
				for _, r := range append(b.rows, rows...) {
					for i, column := range []Column{Epoch, TotalEpochs, Step, TotalSteps} {
						v, ok := r.Value(column)
						if ok && v < last[i] {
							t.Errorf("%s goes back from %g to %g at line %d", column, last[i], v, r.Line)
						}
						if ok {
							last[i] = v
						}
					}
				}
				want(t, fmt.Sprintf("progress in pieces of %d bytes", piece), last, [4]float64{c.epoch, c.epochs, c.step, c.steps})
			}
		})
	}
}

// Printed settings and bars of other activities are not progress.
func TestStdoutIsNoProgress(t *testing.T) {
	for name, text := range map[string]string{
		"argparse":               "Namespace(epochs=12, steps=500, epoch=3, step=4)\n",
		"dictionary":             "{'device': 'cpu', 'resume': False, 'epoch': 3, 'step': 7, 'max_steps': 60}\n",
		"key values":             "agnostic_nms=False, amp=True, auto_augment=randaugment, batch=4, epochs=4, step=3\n",
		"settings alone":         "epochs=4\nsteps: 500\nbatch: 64\niters = 100\n",
		"dataclass":              "TrainConfig(epoch=3, step=10)\n",
		"adding":                 "Adding EOS to train dataset: 100%|##########| 800/800 [00:10<00:00, 278.76 examples/s]\n",
		"truncating":             "Truncating train dataset:  50%|#####     | 400/800 [00:10<00:10, 278.76 examples/s]\n",
		"labels":                 "Building labels for train dataset: 10/20 [00:10<00:10]\nBuilding labels: 50%|##| 10/20 [00:10<00:10, 1.0it/s]\n",
		"unknown label":          "Frobnicating: 50%|#####     | 10/20 [00:10<00:10, 1.0it/s]\n",
		"bytes":                  "50%|#####     | 10/20 [00:10<00:10, 1.0MB/s]\n",
		"just begun, no label":   "50%|#####     | 10/20 [00:01<00:01, 10.0it/s]\n",
		"compiler":               "[3/20] Building CXX object x.o\n",
		"scanning":               "\x1b[K\x1b[34m\x1b[1mtrain: \x1b[0mScanning labels/train... 16 images: 100% ━━━━━━━━━━━━ 16/16 1.9Kit/s\n",
		"timing with a comma":    "Speed: 0.0ms preprocess, 4.5ms inference, 0.0ms loss, 0.2ms postprocess per image\n",
		"steps a second":         "SPS: 1390\n",
		"files at the beginning": "3/20 files copied\n",
		"settings of kohya":      "  num batches per epoch / 1epochのバッチ数: 100\n  num epochs / epoch数: 10\n  gradient accumulation steps / 勾配を合計するステップ数 = 1\n  total optimization steps / 学習ステップ数: 1000\n",
		"settings, singular":     "num epoch: 10\nTotal step: 500\n",
		"Markov chains":          "Chain 1 Iteration:    1 / 2000 [  0%]  (Warmup) \nChain 1: Iteration: 1001 / 2000 [ 50%]  (Sampling)\nchain [2] Iteration: 100 / 2000 [  5%]\nIteration:  100 / 2000 [  5%]  (Warmup)\n",
		"nested builds":          "[1/3] [2/5] Building CXX object x.o\n",
	} {
		b := newBench(t, TailOptions{Format: "stdout"})
		b.write(text)
		b.poll()
		want(t, name, strings.Join(progressOf(b.rows), "; "), "")
	}
}

// With bars of several kinds in one stream, only the training's bar counts, and it is recognised again after the
// others.
func TestStdoutBars(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"drawn for long": {"10%|# | 2/20 [00:04<00:40]\r30%|### | 6/20 [00:12<00:30]\r", []string{"step=6 total_steps=20"}},
		"with a loss":    {"10%|# | 2/20 [00:00<00:40, loss=0.5]\r", []string{"step=2 total_steps=20 train_loss=0.5"}},
		"validation inside": {"10%|# | 2/20 [00:01<00:40]\r50%|## | 1/2 [00:00<00:00]\r100%|## | 2/2 [00:00<00:00]\r15%|# | 3/20 [00:02<00:40]\r",
			[]string{"step=3 total_steps=20"}},
		"preparation before": {"100%|####| 800/800 [00:02<00:00]\n 5%|# | 1/20 [00:01<00:40, loss=2]\r", []string{"step=1 total_steps=20 train_loss=2"}},
		"again in each epoch": {"100%|####| 20/20 [00:02<00:00, loss=1]\n 50%|# | 10/20 [00:01<00:40, loss=0.5]\r",
			[]string{"step=20 total_steps=20 train_loss=1", "step=30 train_loss=0.5"}},
		"epoch line and bars": {"Epoch 1/4\n50%|# | 10/20 [00:00<00:00]\r100%|# | 20/20 [00:00<00:00]\rEpoch 2/4\n50%|# | 10/20 [00:00<00:00]\r",
			[]string{"total_epochs=4", "epoch=0.5 total_epochs=4", "epoch=1 total_epochs=4", "epoch=1.5 total_epochs=4"}},
		"nested in a bar of epochs": {"100%|####| 800/800 [00:02<00:00]\nEpochs: 0%| | 0/2 [00:00<?, ?it/s]\ntrain 0: 50%|# | 10/20 [00:00<00:00]\rtrain 0: 100%|# | 20/20 [00:00<00:00]\rval: 50%|# | 5/10 [00:00<00:00]\r" +
			"Epochs: 50%|# | 1/2 [00:01<00:01]\ntrain 1: 50%|# | 10/20 [00:00<00:00]\rEpochs: 50%|# | 1/2 [00:01<00:01]\rtrain 1: 75%|# | 15/20 [00:00<00:00]\rEpochs: 100%|##| 2/2 [00:02<00:00]\n50%|# | 5/10 [00:01<00:01]\r",
			[]string{"total_epochs=2", "epoch=0.5 total_epochs=2", "epoch=1 total_epochs=2", "epoch=1.5 total_epochs=2", "epoch=1 total_epochs=2", "epoch=1.75 total_epochs=2", "epoch=2 total_epochs=2"}},
		"zero-based to the end": {"Epoch 0/2 loss 1\nEpoch 1/2 loss 1\nEpoch 2/2 loss 1\n",
			[]string{"epoch=1 total_epochs=2 train_loss=1", "epoch=2 total_epochs=2 train_loss=1", "epoch=3 total_epochs=3 train_loss=1"}},
		"zero after a setting": {"Epoch 12 is the last\nEpoch 0: loss 1\n", []string{"epoch=11", "epoch=1 train_loss=1"}},
		"after a time": {"2026-11-27 09:29:15,415 : INFO : EPOCH 0 - PROGRESS: at 24.42% examples, 109633 words/s, in_qsize 4, out_qsize 0\n2026-11-27 09:29:19,415 : INFO : EPOCH 1: training on 450000 raw words took 4.1s, 109633 effective words/s\n",
			[]string{"epoch=1"}},
		"test set": {"epoch: 1\nTest set: Average loss: 0.05, Accuracy: 9800/10000 (98%)\n", []string{"epoch=1 test_loss=0.05 test_accuracy=98"}},
		"catboost": {"0:\tlearn: 0.6\ttest: 0.7\tbest: 0.7 (0)\ttotal: 1.2ms\tremaining: 1.1s\n", []string{"step=1 train_loss=0.6 test_loss=0.7"}},
		"table aligned by blanks": {"  epoch    train_loss    valid_acc     dur\n-------  ------------  -----------  ------\n      1        0.6868       0.5650  0.0563\n" +
			"      7   12   3\n      2           nan       0.6000  0.0563\n", []string{"epoch=1 train_loss=0.6868 test_accuracy=0.565", "epoch=2 test_accuracy=0.6"}},
		"table from zero": {"epoch     train_loss  valid_loss  time    \n0         0.9         0.8         00:01     \n1         0.7         0.6         00:01     \n",
			[]string{"epoch=1 train_loss=0.9 test_loss=0.8", "epoch=2 train_loss=0.7 test_loss=0.6"}},
		"scikit-learn's table": {"      Iter       Train Loss      OOB Improve   Remaining Time \n         1           1.2613           0.0800            1.90s\n        10           0.8012           0.0300            1.05m\n       100           0.3012          -0.0001            0.00s\n",
			[]string{"step=1 train_loss=1.2613", "step=10 train_loss=0.8012", "step=100 train_loss=0.3012"}},
		"scikit-learn's trees": {"[1/100] 1 tree, 31 leaves, max depth = 8, in 0.043s\n[2/100] 3 trees, 93 leaves (31 on avg), max depth = 8, train loss: 0.5, in 0.043s\n",
			[]string{"step=1 total_steps=100", "step=2 total_steps=100"}},
		"batches of an epoch, timm": {"Train: 0 [   3/6 ( 60%)]  Loss: 0.700 (0.70)  Time: 0.5s,   30.0/s\nTrain: 0 [   6/6 (100%)]  Loss: 0.6\nTrain: 1 [   3/6 ( 60%)]  Loss: 0.5\n",
			[]string{"epoch=0.5 train_loss=0.7", "epoch=1 train_loss=0.6", "epoch=1.5 train_loss=0.5"}},
		"batches of an epoch, mmengine": {"2024/05/01 10:00:00 - mmengine - INFO - Epoch(train) [1][49/98]  lr: 1.0000e-03  eta: 0:00:30  time: 0.1234  loss: 5.1\n" +
			"2024/05/01 10:00:12 - mmengine - INFO - Epoch(val) [1][16/16]    accuracy: 45.1  data_time: 0.01  time: 0.05\n2024/05/01 10:00:20 - mmengine - INFO - Epoch(train) [2][49/98]  lr: 1.0e-03  loss: 4.1\n",
			[]string{"epoch=0.5 train_loss=5.1", "epoch=1.5 train_loss=4.1"}},
		"batches of an epoch, fairseq": {"2024-05-01 10:00:00 | INFO | train_inner | epoch 001:    551 / 1102 loss=11.3, ppl=1900, num_updates=551, wall=90\n" +
			"2024-05-01 10:10:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.1 | num_updates 1102\n2024-05-01 10:10:00 | INFO | train | epoch 001 | loss 9.9 | num_updates 1102\n",
			[]string{"epoch=0.5 train_loss=11.3", "epoch=1 test_loss=9.1", "epoch=1 train_loss=9.9"}},
		"batches without their number": {"INFO [train.py:850] Epoch 1, batch 0, loss[loss=7.5, over 1000.00 frames. ]\nINFO [train.py:850] Epoch 2, batch 50, loss[loss=1.5, over 10 frames. ]\n",
			[]string{"train_loss=7.5", "epoch=1 train_loss=1.5"}},
		"result after a batch": {"Epoch 1 Batch 100 Loss 2.3\nValidation Loss: 2.1\nEpoch 1 Batch 200 Loss 2.0\nEpoch 1 done\nValidation Loss: 1.9\n",
			[]string{"train_loss=2.3", "test_loss=2.1", "train_loss=2", "epoch=1 test_loss=1.9"}},
		"phases of a training": {"Iteration 10/1000, loss 0.5 (warmup)\nIteration 20/1000, loss 0.4 (sampling)\n",
			[]string{"step=10 total_steps=1000 train_loss=0.5", "step=20 total_steps=1000 train_loss=0.4"}},
		"result after its batch":             {"Epoch: 1, Batch: 100\nLoss: 0.5\nEpoch: 2, Batch: 100\nLoss: 0.4\n", []string{"train_loss=0.5", "epoch=1", "train_loss=0.4"}},
		"result after a batch of known ones": {"Epoch: 1, Batch: 938/938, Loss: 0.5\nValidation Loss: 0.4\nEpoch 2 [938/938] Batch 937 Loss 0.3\nValidation Loss: 0.2\n", []string{"epoch=1 train_loss=0.5", "epoch=1 test_loss=0.4", "epoch=2 train_loss=0.3", "epoch=2 test_loss=0.2"}},
		"evaluation of an epoch": {"train epoch: 1, loss: 2.3, accuracy: 12.5\neval epoch: 1, loss: 2.1, accuracy: 15.5\n",
			[]string{"epoch=1 train_loss=2.3 train_accuracy=12.5", "epoch=1 test_loss=2.1 test_accuracy=15.5"}},
		"accuracy of the first guess": {"Epoch: [0][  25/50]\tTime  0.500 ( 0.500)\tLoss 6.9e+00 (6.9e+00)\tAcc@1  12.50 ( 10.00)\tAcc@5  30.00 ( 20.00)\n", []string{"epoch=0.5 train_loss=6.9 train_accuracy=12.5"}},
		"log writer of clu": {"I0501 10:00:00.123 1234 logging_writer.py:48] [0] Hyperparameters: {'num_epochs': 10, 'batch': 'x', 'model': 'y'}\nI0501 10:00:00.123 1234 logging_writer.py:48] [100] loss=2.3, steps_per_second=3.4\nI0501 10:00:30.123 1234 logging_writer.py:48] [100] eval_loss=2.0\n",
			[]string{"step=100 train_loss=2.3", "step=100 test_loss=2"}},
		"XGBoost in R": {"[1]\ttrain-rmse:0.5 \n[2]\ttrain-rmse:0.4 \n", []string{"step=1 train_loss=0.5", "step=2 train_loss=0.4"}},
		"XGBoost's program": {"[18:48:40] [0]\ttest-logloss:0.61\ttrain-logloss:0.58\n[18:48:40] [1]\ttest-logloss:0.5\ttrain-logloss:0.4\n",
			[]string{"step=1 train_loss=0.58 test_loss=0.61", "step=2 train_loss=0.4 test_loss=0.5"}},
		"joblib": {"[Parallel(n_jobs=2)]: Using backend ThreadingBackend with 2 concurrent workers.\n[Parallel(n_jobs=2)]: Done  46 tasks      | elapsed:    0.9s\n[Parallel(n_jobs=2)]: Done 100 out of 100 | elapsed:    1.8s finished\n",
			[]string{"step=46", "step=100"}},
		"dates": {"11/27/2026 10:00:00 - INFO - __main__ -   Epoch 1 loss 0.5\n[11/27 10:00:05] epoch 2 loss 0.5\n11/27 10:00:05 epoch: 3/10 loss 0.5\n[11/27 10:00:05] Epoch: [4] [ 20/100] loss: 0.5\n11/27 10:00 loss 0.5\n",
			[]string{"epoch=1 train_loss=0.5", "epoch=2 train_loss=0.5", "epoch=3 total_epochs=10 train_loss=0.5", "epoch=3.2 total_epochs=10 train_loss=0.5", "epoch=4 total_epochs=10 train_loss=0.5"}},
		"shares of the data that are right": {"Epoch: 1 | Loss: 0.5 | Acc: 90.0% (4500/5000)\nEpoch 2 loss: 0.4 correct: (450/500), patience [2/5]\nepoch 3 loss 0.4 acc 0.9 (45/50)\nepoch 4 loss 0.4 acc 0.9 [10/50]\n",
			[]string{"epoch=1 train_loss=0.5 train_accuracy=90", "epoch=2 train_loss=0.4", "epoch=3 train_loss=0.4 train_accuracy=0.9", "epoch=3.2 train_loss=0.4 train_accuracy=0.9"}},
		"folds and clients": {"Fold [1/5] Epoch [3/10] loss 0.5\nRound [3/50] Client (1/10) Epoch [4/10] loss 0.3\n", []string{"epoch=3 total_epochs=10 train_loss=0.5", "epoch=4 total_epochs=10 train_loss=0.3"}},
		"a time is no position": {"Epoch: 2 Step: 10ms | Loss: 1.2\nepoch 2 loss: 0.5\naverage epoch 11.9 s, time per epoch: 12\nstep 300 loss 0.5, time per step: 7, step size: 0.1\n",
			[]string{"epoch=1 train_loss=1.2", "epoch=2 train_loss=0.5", "step=300 train_loss=0.5"}},
		"the first position of a line": {"epoch 3/10 loss 0.5, best 0.4 at epoch 1\nEpoch 4/10 loss 0.5\nbest epoch: 1, best step: 400\n", []string{"epoch=3 total_epochs=10 train_loss=0.5", "epoch=4 total_epochs=10 train_loss=0.5"}},
		"groups of thousands":          {"Step 1,000/10,000 loss 0.3\nstep 20_000: loss 0.3\nIteration 30k: loss=0.3, 12.5k tokens\n", []string{"step=1000 total_steps=10000 train_loss=0.3", "step=20000 train_loss=0.3", "step=30000 train_loss=0.3"}},
		"steps of something else":      {"step 30/100 loss 0.5\nval step 50/50 val_loss 0.1\ngenerating step 900/1000\nsaved runs/epoch=12-step=400.ckpt\n", []string{"step=30 total_steps=100 train_loss=0.5", "test_loss=0.1"}},
		"table of Spinning Up": {"|             Epoch |               0 |\n|      AverageEpRet |            22.1 |\n| TotalEnvInteracts |           4e+03 |\n|             Epoch |               1 |\n| TotalEnvInteracts |           8e+03 |\n",
			[]string{"epoch=1", "step=4000", "epoch=2", "step=8000"}},
		"result after its step, snnTorch": {"Epoch 0, Iteration 0\nTrain Set Loss: 20.5\nEpoch 0, Iteration 50\nTrain Set Loss: 9.5\nEpoch 1, Iteration 0\n",
			[]string{"train_loss=20.5", "step=50", "train_loss=9.5", "epoch=1"}},
		"result after its step, Coqui": {" > EPOCH: 0/10\n   --> TIME: 2026-11-28 18:01:03 -- STEP: 0/50 -- GLOBAL_STEP: 0\n     | > loss: 2.5  (2.5)\n > EPOCH: 1/10\n",
			[]string{"total_epochs=10", "total_epochs=10 train_loss=2.5", "epoch=1 total_epochs=10"}},
		"evaluation within an epoch, PaddleOCR": {"ppocr INFO: epoch: [2/500], global_step: 1020, lr: 0.000100, loss: 5.1, eta: 1 day, 0:00:00\nppocr INFO: best metric, acc: 0.3, best_epoch: 1\n" +
			"ppocr INFO: epoch: [2/500], global_step: 1030, loss: 5.0\nepoch: 2, val_loss: 4.5\n",
			[]string{"epoch=1 total_epochs=500 step=1020 train_loss=5.1", "total_epochs=500 train_accuracy=0.3", "epoch=1 total_epochs=500 step=1030 train_loss=5", "epoch=2 total_epochs=500 test_loss=4.5"}},
		"time of an epoch, MindSpore": {"epoch: 1 step: 1875, loss is 0.05\nTrain epoch time: 5673.2 ms, per step time: 3.0 ms\n", []string{"step=1875", "epoch=1 epoch_time=5.6732"}},
		"Chainer": {"epoch       main/loss   elapsed_time\n\x1b[J1           0.5         1.2\n\x1b[J     total [##........] 10.00%\nthis epoch [..........]  0.00%\n        60 iter, 1 epoch / 20 epochs\n" +
			"        75 iter, 1 epoch / 500 iterations\n", []string{"epoch=1 train_loss=0.5", "epoch=1 total_epochs=20"}},
		"three counts, Tesseract":     {"At iteration 90/100/100, Mean rms=5.2%, delta=10.1%\n", []string{"step=90"}},
		"name of a throughput, Flair": {"epoch 1 - iter 5/10 - loss 2.5 - time (sec): 0.12 - samples/sec: 3200.5 - lr: 0.1\n", []string{"epoch=0.5 train_loss=2.5 throughput=3200.5"}},
		"batches of an epoch, libtorch": {"[ 1/3][20/40] D_loss: 0.6 | G_loss: 1.1\n-> checkpoint 1\n[ 3/3][10/40] D_loss: 0.6 | G_loss: 1.1\n[ 3/3][40/40] D_loss: 0.6 | G_loss: 1.1\n",
			[]string{"epoch=0.5 total_epochs=3 train_loss=0.6", "epoch=2.25 total_epochs=3 train_loss=0.6", "epoch=3 total_epochs=3 train_loss=0.6"}},
		"batches of an epoch from zero, PyTorch": {"[0/2][0/1600]\tLoss_D: 1.6\tLoss_G: 5.1\tD(x): 0.5\tD(G(z)): 0.6 / 0.0\n[0/2][400/1600]\tLoss_D: 0.6\tLoss_G: 5.1\n[1/2][800/1600]\tLoss_D: 0.6\tLoss_G: 5.1\n",
			[]string{"total_epochs=2", "epoch=0.25 total_epochs=2", "epoch=1.5 total_epochs=2"}},
		"batches of an epoch, Swin": {"[2024-05-01 10:00:00 swin] (main.py 200): INFO Train: [0/300][10/40]\teta 0:14:22 lr 0.000000\t time 0.3\tloss 6.9 (6.9)\n",
			[]string{"epoch=0.25 total_epochs=300 train_loss=6.9"}},
		"no settings": {"Total steps: 400/1000\nTotal loss: 0.5, epoch: 3\nTotal epoch: 4/10\n", []string{"step=400 total_steps=1000", "epoch=3 train_loss=0.5", "epoch=3 total_epochs=10"}},
		"YOLOv5": {"      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size\n        0/2      3.5G     0.0456    0.06789    0.01789        229        640:  50%|#####     | 4/8 [00:05<00:05,  1.31s/it]\r" +
			"        0/2      3.5G     0.0456    0.06789    0.01789        229        640: 100%|##########| 8/8 [00:10<00:00,  1.31s/it]\n" +
			"                 Class     Images  Instances          P          R      mAP50   mAP50-95: 100%|##########| 4/4 [00:02<00:00,  1.6it/s]\n" +
			"        1/2      3.5G     0.0456    0.06789    0.01789        229        640:  50%|#####     | 4/8 [00:05<00:05,  1.31s/it]\r        2/2      3.5G     0.0456    0.06789    0.01789        229        640: 100%|##########| 8/8 [00:10<00:00,  1.31s/it]\n",
			[]string{"epoch=0.5 total_epochs=3", "epoch=1 total_epochs=3", "epoch=1.5 total_epochs=3", "epoch=3 total_epochs=3"}},
		"YOLOv5, one epoch": {"      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size\n        0/0      3.5G     0.0456    0.06789    0.01789        229        640:  50%|#####     | 4/8 [00:05<00:05,  1.31s/it]\n", []string{"epoch=0.5 total_epochs=1"}},
		"YOLOv8 twice": {"      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n        3/3      3.5G     0.0456    0.06789    0.01789        229        640: 100%|##########| 8/8 [00:10<00:00,  1.31s/it]\n" +
			"        1/2      3.5G     0.0456    0.06789    0.01789        229        640: 100%|##########| 8/8 [00:10<00:00,  1.31s/it]\n",
			[]string{"epoch=3 total_epochs=3", "epoch=1 total_epochs=2"}},
		"YOLOv8 after an epoch of the user": {"epoch 0\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n        1/2      3.5G     0.0456    0.06789    0.01789        229        640: 100%|##########| 8/8 [00:10<00:00,  1.31s/it]\n" +
			"        2/2      3.5G     0.0456    0.06789    0.01789        229        640: 100%|##########| 8/8 [00:10<00:00,  1.31s/it]\n",
			[]string{"epoch=1 total_epochs=2", "epoch=2 total_epochs=2"}},
		"early stop": {"`Trainer.fit` stopped: `max_steps=200` reached.\n", []string{"step=200 total_steps=200"}},
	} {
		b := newBench(t, TailOptions{Format: "stdout"})
		b.write(c.text)
		b.poll()
		want(t, name, strings.Join(progressOf(b.rows), "\n"), strings.Join(c.want, "\n"))
	}
}

// A long line between rows loses no row and is counted as bad.
func TestTailFinishReadsBeyondLongLines(t *testing.T) {
	for name, length := range map[string]int64{"3 MiB": 3 << 20, "64 MiB": 64 << 20} {
		b := newBench(t, TailOptions{})
		b.write(header2 + epochRows(1, 5) + strings.Repeat("x", int(length)) + "\n" + epochRows(6, 10))
		var epochs []float64
		for range 10000 {
			rows, err := b.tail.Finish(b.now)
			b.ok(err)
			if epochs = append(epochs, values(rows, Epoch)...); len(rows) == 0 && b.stats().Behind == 0 {
				break
			}
		}
		want(t, name, epochs, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
		want(t, name+": bad", b.stats().FirstBad, []string{"line 7: longer than 1048576 bytes"})
	}
}

// A poll ends after MaxTime with at least one chunk read, and reports the remaining bytes.
func TestTailPollIsBounded(t *testing.T) {
	b := newBench(t, TailOptions{MaxTime: time.Nanosecond, MaxRows: 1 << 30, MaxBytes: 1 << 30})
	b.write(header2 + epochRows(1, 50_000))
	rows, err := b.tail.Poll(b.now)
	b.ok(err)
	if s := b.stats(); len(rows) == 0 || s.Bytes > 32<<10 || s.Behind == 0 {
		t.Errorf("%d rows of %d bytes in one poll, %d left", len(rows), s.Bytes, s.Behind)
	}
}

// Positions that no training reaches are bad rows, not progress.
func TestImplausiblePositions(t *testing.T) {
	b := newBench(t, TailOptions{})
	b.write("epoch,total_epochs,train_loss\n1,20,0.5\n99999999999999999999999,20,0.4\n2,20,0.4\n90000,20,0.3\n1795353900,,0.3\n3,20,0.3\n")
	want(t, "epochs", b.poll(), []float64{1, 2, 3})
	want(t, "bad", b.stats().FirstBad, []string{"line 3: epoch 1e+23 is not plausible", "line 5: epoch 90000 is not plausible", "line 6: epoch 1795353900 is not plausible"})
	b = newBench(t, TailOptions{})
	b.write("step,train_loss\n1000000,0.5\n2000000,0.4\n1e30,0.4\n")
	b.poll()
	want(t, "steps", values(b.rows, Step), []float64{1e6, 2e6})
}

// Printed settings are not progress, in any notation.
func TestSettingsAreNoProgress(t *testing.T) {
	keys := rapid.SampledFrom([]string{"epoch", "epochs", "step", "steps", "iter", "max_steps", "batch", "n_epochs", "lr", "total_epochs"})
	values := rapid.SampledFrom([]string{"12", "0.1", "None", "True", "'adam'", "cuda:0", "500"})
	rapid.Check(t, func(t *rapid.T) {
		pairs := []string{"device='cpu'", "resume=False"}
		for range rapid.IntRange(2, 12).Draw(t, "pairs") {
			pairs = append(pairs, keys.Draw(t, "key")+"="+values.Draw(t, "value"))
		}
		list := strings.Join(rapid.Permutation(pairs).Draw(t, "order"), ", ")
		for _, text := range []string{"Namespace(" + list + ")", list, "args: " + list, "{'" + strings.ReplaceAll(strings.ReplaceAll(list, ", ", ", '"), "=", "': ") + "}"} {
			p := newStdout(&parseOptions{}).(*progressParser)
			var r Row
			if p.read([]byte(text), &r) {
				t.Fatalf("%s is read as %v", text, progressOf([]Row{r}))
			}
		}
	})
}
