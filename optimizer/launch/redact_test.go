package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Arguments that look like secrets.
func TestRedact(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"nothing":            {"train.py --epochs 3 --lr=0.1", "train.py --epochs 3 --lr=0.1"},
		"flag with value":    {"--api-key=abc --x 1", "--api-key=[redacted] --x 1"},
		"flag, then value":   {"--token abc --x 1", "--token [redacted] --x 1"},
		"value like a flag":  {"--password -abc", "--password [redacted]"},
		"flag without value": {"--token --x 1", "--token --x 1"},
		"underscores":        {"--hf_token abc --wandb_api_key=abc", "--hf_token [redacted] --wandb_api_key=[redacted]"},
		"setting":            {"wandb.api_key=abc model=x", "wandb.api_key=[redacted] model=x"},
		"variable":           {"env AWS_SECRET_ACCESS_KEY=abc MODEL_DIR=x", "env AWS_SECRET_ACCESS_KEY=[redacted] MODEL_DIR=x"},
		"any key variable":   {"env COMET_KEY=abc", "env COMET_KEY=[redacted]"},
		"hugging face":       {"x hf_abcdefghijklmnopqrstuvwxyz012345", "x [redacted]"},
		"openai":             {"x sk-proj-abcdefghijklmnop_1234", "x [redacted]"},
		"aws":                {"x AKIAIOSFODNN7EXAMPLE", "x [redacted]"},
		"github":             {"x ghp_abcdefghijklmnopqrstuvwxyz0123456789", "x [redacted]"},
		"credentials":        {"--auth me:abc --cookie abc --jwt abc", "--auth [redacted] --cookie [redacted] --jwt [redacted]"},
		"url":                {"s3 https://me:pass@host/data", "s3 https://[redacted]@host/data"},
		"url without one":    {"x https://host:80/data?a=b@c", "x https://host:80/data?a=b@c"},
		"in a value":         {"--url=https://me:pass@host/", "--url=https://[redacted]@host/"},
		"no secrets":         {"--tokenizer gpt2 --max-tokens 5 --text-key body --sort_key=len --key id", "--tokenizer gpt2 --max-tokens 5 --text-key body --sort_key=len --key id"},
		"models":             {"--model hf_transformer sk-learn keras", "--model hf_transformer sk-learn keras"},
	} {
		if got := strings.Join(Redact(strings.Fields(c.args)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Secrets within one argument.
func TestRedactWithin(t *testing.T) {
	for name, c := range map[string]struct{ arg, want string }{
		"header":             {"Authorization: Bearer abcdef0123456789", "Authorization: Bearer [redacted]"},
		"short header":       {"Authorization: token abc", "Authorization: token [redacted]"},
		"key in a header":    {"X-Api-Key: abc", "X-Api-Key: [redacted]"},
		"parameter of a URL": {"https://h.org/?token=abc&a=1", "https://h.org/?token=[redacted]&a=1"},
		"signed URL":         {"--data=https://h.org/c?sv=1&sig=a%2Bc&se=2", "--data=https://h.org/c?sv=1&sig=[redacted]&se=2"},
		"amazon's":           {"https://h.org/c?X-Amz-Signature=abc", "https://h.org/c?X-Amz-Signature=[redacted]"},
		"connection":         {"AccountName=me;AccountKey=abc==;Suffix=x", "AccountName=me;AccountKey=[redacted];Suffix=x"},
		"shared access":      {"Endpoint=sb://h/;SharedAccessKey=abc=", "Endpoint=sb://h/;SharedAccessKey=[redacted]"},
		"JSON":               {`{"lr": 1, "api_key": "abc", "accessToken":"def"}`, `{"lr": 1, "api_key": "[redacted]", "accessToken":"[redacted]"}`},
		"shell":              {"export WANDB_API_KEY=abc MY_KEY='d' python t.py --hub-token ghi --lr 1", "export WANDB_API_KEY=[redacted] MY_KEY='[redacted]' python t.py --hub-token [redacted] --lr 1"},
		"colon":              {"--access_token:abc", "--access_token:[redacted]"},
		"none":               {`python t.py --tokenizer gpt2 --author me "sort_key": "len" design=3 http://h/?a=signal&tokens=5`, `python t.py --tokenizer gpt2 --author me "sort_key": "len" design=3 http://h/?a=signal&tokens=5`},
	} {
		if got := Redact([]string{"run", c.arg})[1]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// No file of a run that users read or send contains the secret, and the job receives it nevertheless.
func TestSecretsStayOffTheDisk(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "env", "--api-key", "s3cr3t-value")
	j := start(t, testLocal(), c)
	waitEnd(t, j)
	if text := output(t, c.RunDir, stdoutFile); !strings.Contains(text, "s3cr3t-value") {
		t.Fatalf("the job did not get its argument: %q", text)
	}
	files, err := os.ReadDir(c.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v; want none for others", f.Name(), info.Mode(), err)
		}
		if data, err := os.ReadFile(filepath.Join(c.RunDir, f.Name())); err != nil || f.Name() != stdoutFile && strings.Contains(string(data), "s3cr3t-value") {
			t.Errorf("%s holds the secret (%v)", f.Name(), err)
		}
	}
}
