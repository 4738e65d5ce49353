package inspect

import (
	"regexp"
	"sync"
)

// family is the name of a finding and the pattern of its identifiers. Patterns match the lower-case form of
// lowerWords; (?:^|[^a-z]) is the start of a word.
type family struct {
	name    string
	pattern *regexp.Regexp
}

// vocabulary is a list of families, compiled on first use.
type vocabulary struct{ list func() []family }

func families(table ...string) *vocabulary {
	return &vocabulary{sync.OnceValue(func() []family {
		list := make([]family, 0, len(table)/2)
		for i := 0; i < len(table); i += 2 {
			list = append(list, family{table[i], regexp.MustCompile(table[i+1])})
		}
		return list
	})}
}

// modelFamilies are tried in order: more specific names first.
var modelFamilies = families(
	"efficientnet", `efficient_?net`,
	"mobilenet", `mobile_?net`,
	"densenet", `dense_?net(?:[^a-z]|\d|$)`,
	"alexnet", `alex_?net`,
	"squeezenet", `squeeze_?net`,
	"shufflenet", `shuffle_?net`,
	"googlenet", `googl?e_?net`,
	"inception", `(?:^|[^a-z])inception`,
	"convnext", `convnext`,
	"resnet", `(?:^|[^a-z]|wide|pre|se)_?res_?ne(?:t|xt)`,
	"vgg", `(?:^|[^a-z])vgg`,
	"swin", `(?:^|[^a-z])swin`,
	"vit", `(?:^|[^a-z])vit(?:[^a-z]|for|model|config|$)|vision_?transformer`,
	"deit", `(?:^|[^a-z])deit(?:[^a-z]|$)`,
	"yolo", `(?:^|[^a-z])yolo`,
	"unet", `(?:^|[^a-z]|attention)u_?-?net`,
	"bert", `(?:^|[^a-z])(?:al|distil|tiny|mobile|camem|ro|xlm-?ro|de)?-?bert(?:a|[^a-z]|for|model|config|tokenizer|$)`,
	"electra", `(?:^|[^a-z])electra`,
	"llama", `llama`,
	"mistral", `(?:^|[^a-z])mi[sx]tral`,
	"gpt", `(?:^|[^a-z])(?:nano|min|mini|distil)?-?gpt`,
	"t5", `(?:^|[^a-z])(?:flan-|m|by)?t5(?:[^a-z0-9]|for|model|$)`,
	"bart", `(?:^|[^a-z])m?bart(?:[^a-z]|for|model|$)`,
	"whisper", `(?:^|[^a-z])whisper`,
	"wav2vec2", `wav2vec`,
	"deepspeech", `deep_?speech`,
	"ncf", `(?:^|[^a-z])(?:ncf|neumf)(?:[^a-z]|$)`,
	"dlrm", `(?:^|[^a-z])dlrm`,
	"gan", `(?:^|[^a-z])(?:dc|w|cycle|style|c)?gan(?:[^a-z]|$)`,
	"wavenet", `wave_?net`,
	"lstm", `(?:^|[^a-z]|bi|conv)lstm`,
	"gru", `(?:^|[^a-z]|bi)gru(?:[^a-z]|cell|$)`,
	"rnn", `(?:^|[^a-z])(?:simple)?rnn(?:[^a-z]|model|$)`,
	"transformer", `(?:^|[^a-z])transformer(?:[^a-z]|model|encoder|decoder|block|$)`,
	"mlp", `(?:^|[^a-z])mlp|multi_?layer_?perceptron`,
	"cnn", `(?:^|[^a-z])(?:simple|small|basic)?cnn|(?:^|[^a-z])conv_?net|(?:^|[^a-z])le_?net`,
	"random-forest", `random_?forest|extra_?trees`,
	"gradient-boosting", `gradient_?boosting|(?:^|[^a-z])xgb|lgbm|catboost`,
	"linear", `(?:logistic|linear|softmax)_?regression|(?:^|[^a-z])(?:sgd|ridge)classifier`,
	"svm", `(?:^|[^a-z])(?:linear)?svc?m?(?:[^a-z]|$)`,
)

// layerFamilies classify a network by its layers when its name is not specific. The largest weight decides.
var layerFamilies = []struct {
	name   string
	weight float64
	layers map[string]bool
}{
	{"transformer", 3, set("TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention", "MultiHeadAttention", "Transformer")},
	{"lstm", 2.5, set("LSTM", "LSTMCell", "ConvLSTM2D")},
	{"gru", 2.5, set("GRU", "GRUCell")},
	{"rnn", 2.5, set("RNN", "SimpleRNN")},
	{"cnn", 2, set("Conv1d", "Conv2d", "Conv3d", "Conv1D", "Conv2D", "Conv3D", "Conv", "conv2d")},
	{"mlp", 1, set("Linear", "Dense", "dense")},
}

var datasetFamilies = families(
	"cifar100", `cifar-?_?100`,
	"cifar10", `cifar(?:-?_?10)?(?:[^0-9]|$)`,
	"tiny-imagenet", `tiny-?_?imagenet`,
	"imagenet", `(?:^|[^a-z])(?:imagenet|ilsvrc)`,
	"fashion-mnist", `fashion-?_?mnist`,
	"emnist", `(?:^|[^a-z])emnist`,
	"kmnist", `(?:^|[^a-z])kmnist`,
	"mnist", `(?:^|[^a-z])mnist`,
	"svhn", `(?:^|[^a-z])svhn`,
	"stl10", `(?:^|[^a-z])stl-?_?10`,
	"celeba", `celeba`,
	"coco", `(?:^|[^a-z])(?:ms)?coco(?:[^a-z]|captions|detection|$)`,
	"pascal-voc", `(?:^|[^a-z])(?:pascal|voc(?:20\d\d|detection|segmentation))`,
	"cityscapes", `cityscapes`,
	"food101", `food-?_?101`,
	"squad", `(?:^|[^a-z])squad`,
	"glue", `(?:^|[^a-z])glue(?:[^a-z]|$)`,
	"imdb", `(?:^|[^a-z])imdb`,
	"wikitext", `wikitext`,
	"openwebtext", `openwebtext`,
	"penn-treebank", `(?:penn_?treebank|(?:^|[^a-z])ptb(?:[^a-z]|$))`,
	"shakespeare", `shakespeare`,
	"wmt", `(?:^|[^a-z])wmt\d\d`,
	"librispeech", `librispeech`,
	"movielens", `movielens|(?:^|[^a-z])ml-(?:100k|1m|10m|20m|25m)`,
	"iris", `(?:^|[^a-z])iris(?:[^a-z]|$)`,
	"california-housing", `california_?housing`,
)

// Family returns the family of a model's name: "resnet" for "ResNet50"; "" for an unknown one.
func Family(model string) string { return modelFamilies.match(model) }

// match returns the family of a name, "" without one.
func (v *vocabulary) match(s string) string {
	if len(s) < 2 || len(s) > 200 {
		return ""
	}
	low := lowerWords(s)
	for _, f := range v.list() {
		if f.pattern.MatchString(low) {
			return f.name
		}
	}
	return ""
}

// match is v.match with a cache, since scripts repeat the same names.
func (s *script) match(v *vocabulary, name string) string {
	if s.matched[v] == nil {
		s.matched[v] = map[string]string{}
	}
	f, ok := s.matched[v][name]
	if !ok {
		f = v.match(name)
		s.matched[v][name] = f
	}
	return f
}

// lowerWords returns a name in lower case with an underscore before each capital that follows a lower-case letter. If
// that differs from the plain lower-case form, the plain form precedes it, separated by a bar, so that a pattern may
// match either: "MyResNet" gives "myresnet|my_res_net".
func lowerWords(s string) string {
	plain := make([]byte, 0, 2*len(s)+1)
	split := make([]byte, 0, len(s)+8)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			if i > 0 && 'a' <= s[i-1] && s[i-1] <= 'z' {
				split = append(split, '_')
			}
			c += 'a' - 'A'
		}
		plain = append(plain, c)
		split = append(split, c)
	}
	if string(plain) == string(split) {
		return string(plain)
	}
	return string(plain) + "|" + string(split)
}

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}
