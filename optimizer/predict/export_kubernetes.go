package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"trainopt/optimizer/report/page"
)

// k8sJob is the form of a Job of Kubernetes (batch/v1), limited to the fields that are written.
type k8sJob struct {
	APIVersion string     `yaml:"apiVersion"`
	Kind       string     `yaml:"kind"`
	Metadata   k8sMeta    `yaml:"metadata"`
	Spec       k8sJobSpec `yaml:"spec"`
}

type k8sMeta struct {
	Name   string            `yaml:"name,omitempty"`
	Labels map[string]string `yaml:"labels"`
}

type k8sJobSpec struct {
	CompletionMode string            `yaml:"completionMode,omitempty"` // of a job on several nodes
	Completions    int               `yaml:"completions,omitempty"`
	Parallelism    int               `yaml:"parallelism,omitempty"`
	BackoffLimit   int               `yaml:"backoffLimit"`
	ActiveDeadline int64             `yaml:"activeDeadlineSeconds"`
	FailurePolicy  *k8sFailurePolicy `yaml:"podFailurePolicy,omitempty"`
	Template       k8sPod            `yaml:"template"`
}

type k8sFailurePolicy struct {
	Rules []k8sFailureRule `yaml:"rules"`
}

type k8sFailureRule struct {
	Action     string              `yaml:"action"`
	Conditions []map[string]string `yaml:"onPodConditions"`
}

type k8sPod struct {
	Metadata k8sMeta    `yaml:"metadata"`
	Spec     k8sPodSpec `yaml:"spec"`
}

type k8sPodSpec struct {
	RestartPolicy string            `yaml:"restartPolicy"`
	Grace         int               `yaml:"terminationGracePeriodSeconds,omitempty"`
	NodeSelector  map[string]string `yaml:"nodeSelector,omitempty"`
	Containers    []k8sContainer    `yaml:"containers"`
}

type k8sContainer struct {
	Name      string       `yaml:"name"`
	Image     string       `yaml:"image"`
	Command   []string     `yaml:"command"`
	Resources k8sResources `yaml:"resources"`
}

type k8sResources struct {
	Requests map[string]string `yaml:"requests"`
	Limits   map[string]string `yaml:"limits,omitempty"`
}

const (
	// k8sCPUShare is the requested share of the CPUs of a machine: a node reserves some for its own services.
	k8sCPUShare = 0.9
	// k8sRestarts is the backoffLimit of a resumable job.
	k8sRestarts = 5
)

// k8sJob returns a Job of Kubernetes as YAML.
func (s *submission) k8sJob() (string, error) {
	c := s.config
	if s.cpus < 1 {
		return "", errors.New("the number of CPUs is not known")
	}
	r := k8sResources{Requests: map[string]string{"cpu": fmt.Sprintf("%.0fm", math.Floor(1000*k8sCPUShare*float64(s.cpus)))}, Limits: map[string]string{}}
	if page.Known(s.memory) {
		text := fmt.Sprintf("%.0fMi", math.Ceil(s.memory*1024))
		r.Requests["memory"], r.Limits["memory"] = text, text
	}
	if c.GPUs > 0 {
		text := fmt.Sprint(c.GPUs)
		r.Requests["nvidia.com/gpu"], r.Limits["nvidia.com/gpu"] = text, text
	}
	for _, word := range s.command {
		if !utf8.ValidString(word) {
			return "", errors.New("the command is not valid UTF-8")
		}
	}
	labels := map[string]string{"app.kubernetes.io/name": s.k8sName(), "app.kubernetes.io/created-by": "optimize"}
	pod := k8sPodSpec{RestartPolicy: "Never", Containers: []k8sContainer{{Name: "training", Image: cmp.Or(s.image, s.k8sName()+":latest"), Command: s.command, Resources: r}}}
	if name := s.option.Offer.Type; s.option.Market != marketOwned && name != "" && !generatedType.MatchString(name) {
		pod.NodeSelector = map[string]string{"node.kubernetes.io/instance-type": name}
	}
	job := k8sJob{APIVersion: "batch/v1", Kind: "Job", Metadata: k8sMeta{Name: s.k8sName(), Labels: labels},
		Spec: k8sJobSpec{ActiveDeadline: s.activeDeadline(), Template: k8sPod{Metadata: k8sMeta{Labels: labels}, Spec: pod}}}
	if c.Nodes > 1 {
		job.Spec.CompletionMode, job.Spec.Completions, job.Spec.Parallelism = "Indexed", c.Nodes, c.Nodes
	}
	if q := s.answer.Question; q.Resumable != nil && *q.Resumable {
		job.Spec.BackoffLimit = k8sRestarts
		job.Spec.FailurePolicy = &k8sFailurePolicy{[]k8sFailureRule{{"Ignore", []map[string]string{{"type": "DisruptionTarget", "status": "True"}}}}}
	}
	if s.saveSignal() == "TERM" {
		job.Spec.Template.Spec.Grace = saveSeconds
	}
	var text strings.Builder
	out := yaml.NewEncoder(&text)
	out.SetIndent(2)
	if err := out.Encode(job); err != nil {
		return "", err
	}
	return strings.Join(append(s.comments(), s.k8sComments()...), "\n") + "\n" + text.String(), nil
}

// k8sComments explains the values that a prediction alone does not determine.
func (s *submission) k8sComments() []string {
	lines := []string{fmt.Sprintf("# activeDeadlineSeconds: the upper end of the predicted time plus %.0f %%; it includes the wait for a node.", 100*limitMargin)}
	if s.answer.Question.Deadline > 0 {
		lines[0] = "# activeDeadlineSeconds: the deadline; it includes the wait for a node."
	}
	lines = append(lines, fmt.Sprintf("# cpu: %.0f %% of the CPUs of the machine, or of its part, because a node reserves some for its services.", 100*k8sCPUShare))
	if s.image == "" {
		lines = append(lines, "# image: replace by the image that contains the command (--image NAME).")
	}
	if s.config.Nodes > 1 {
		lines = append(lines, "# Each pod is one machine; its index is in JOB_COMPLETION_INDEX.")
	}
	if s.option.Market == Spot {
		lines = append(lines, "# Predicted at a spot price: add the label of spot nodes of the cluster to nodeSelector.")
	}
	return lines
}

// activeDeadline returns the time limit of the Job in seconds: the deadline, otherwise the limit of timeLimit.
func (s *submission) activeDeadline() int64 {
	if d := s.answer.Question.Deadline; d > 0 {
		return int64(math.Ceil(d.Seconds()))
	}
	return int64(math.Ceil(s.limitSeconds()))
}

// k8sName returns the name of the job as a DNS label: at most 63 lower-case letters, digits and "-".
func (s *submission) k8sName() string {
	name := strings.Trim(notInLabels.ReplaceAllString(strings.ToLower(s.name), "-"), "-")
	if len(name) > 63 {
		name = strings.Trim(name[:63], "-")
	}
	if name == "" {
		return "training"
	}
	return name
}

var notInLabels = regexp.MustCompile(`[^a-z0-9]+`)

// generatedType matches the name of an offer whose price list has no machine types, such as "8x-a100-80gb".
var generatedType = regexp.MustCompile(`^\d+x-`)
