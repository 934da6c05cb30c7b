package jobspec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

func load(t *testing.T, text string) (*job.JobSpec, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := jobspec.Load(path)
	if err != nil {
		return nil, err
	}
	jobspec.Complete(f.Spec)
	return f.Spec, jobspec.Check(f.Spec)
}

// Every field of an elastic job is read.
func TestElasticFields(t *testing.T) {
	s, err := load(t, `
trainers: 2:8
data:
  one: a-*
  two: [b-*, c-*]
  three: {files: "s3://bucket/d-*", follow: true}
max_restarts: -1
max_task_failures: 5
min_task_timeout: 2s
max_task_timeout: 3m
merge_hosts: true
`)
	if err != nil {
		t.Fatal(err)
	}
	if !s.MergeHosts || s.Trainers != 2 || s.TrainersMax != 8 || s.MaxRestarts != -1 || s.MaxTaskFailures != 5 ||
		s.MinTaskTimeout.AsDuration() != 2*time.Second || s.MaxTaskTimeout.AsDuration() != 3*time.Minute {
		t.Errorf("%v", s)
	}
	var data []string
	for _, d := range s.Data {
		data = append(data, d.Dataset+" "+strings.Join(d.Globs, " "))
		if d.Follow != (d.Dataset == "three") {
			t.Errorf("%s follows: %v", d.Dataset, d.Follow)
		}
	}
	if got, want := strings.Join(data, ", "), "one a-*, three s3://bucket/d-*, two b-* c-*"; got != want {
		t.Errorf("data %s, want %s", got, want)
	}
	if s, err = load(t, "pservers: 2:8"); err != nil || s.Pservers != 2 || s.PserversMin != 2 || s.PserversMax != 8 {
		t.Errorf("%v, %v", s, err)
	}
	if s, err = load(t, "pservers: 3"); err != nil || s.Pservers != 3 || s.PserversMax != 0 {
		t.Errorf("%v, %v", s, err)
	}
	if s, err = load(t, "trainers: 2\ntrainers_max: 3"); err != nil || s.Trainers != 2 || s.TrainersMax != 3 {
		t.Errorf("%v, %v", s, err)
	}
}

// What a job compresses is read, and a form that does not exist is refused by name.
func TestCompression(t *testing.T) {
	s, err := load(t, "compress_gradients: bf16\ncompress_parameters: fp16")
	if err != nil || s.CompressGradients != "bf16" || s.CompressParameters != "fp16" {
		t.Errorf("%v, %v", s, err)
	}
	if s, err = load(t, "compress_gradients: topk:0.001:4096"); err != nil || s.CompressGradients != "topk:0.001:4096" {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := load(t, "compress_gradients: topk:0.5"); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "topk:FRACTION") {
		t.Errorf("topk:0.5: %v", err)
	}
	if _, err := load(t, "compress_parameters: topk:0.01"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("parameters by topk: %v", err)
	}
	for _, field := range []string{"compress_gradients", "compress_parameters"} {
		if _, err := load(t, field+": int8"); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), field+` "int8"`) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What a job leaves open has defaults, which follow from what it says.
func TestDefaults(t *testing.T) {
	s, err := load(t, "trainers: 3\nround_deadline: 10s")
	if err != nil {
		t.Fatal(err)
	}
	if s.TrainersMax != 3 || s.MaxRestarts != 10 || s.MaxTaskFailures != 3 ||
		s.MinTaskTimeout.AsDuration() != 10*time.Second || s.MaxTaskTimeout.AsDuration() != 200*time.Second {
		t.Errorf("%v", s)
	}
	if s, err = load(t, "min_task_timeout: 1h"); err != nil || s.MaxTaskTimeout.AsDuration() != time.Hour {
		t.Errorf("%v, %v", s, err)
	}
}

func TestMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"trainers: 4:2":                                           `"4:2"`,
		"trainers: [2, 4]":                                        "N or N:MAX",
		"trainers: 2:4\ntrainers_max: 5":                          "trainers_max 5",
		"trainers: 4\ntrainers_max: 2":                            "trainers_max 2",
		"max_task_failures: -1":                                   "max_task_failures",
		"min_task_timeout: 1h\nmax_task_timeout: 1s":              "min_task_timeout",
		"max_task_timeout: -1s":                                   "max_task_timeout",
		"round_deadline: 2562047h":                                "round_deadline",
		"lease: 9000h":                                            "at most 8784h",
		"data: {x: {files: a, follow: 1, often: 2}}":              "often",
		"data: {x: {follow: true}}":                               "at least one glob",
		"devices: 65":                                             "devices 65, want 1 to 64",
		"devices: -1":                                             "devices -1, want 1 to 64",
		"push_every: 2":                                           "push_every 2 in sync mode",
		"pull_every: 3":                                           "pull_every 3 in sync mode",
		"pull_every: 1001\nmode: async":                           "pull_every 1001",
		"backup_trainers: 1\nmode: async":                         "backup_trainers in async mode",
		"backup_trainers: -1":                                     "backup_trainers -1",
		"backup_trainers: 3\ntrainers: 3":                         "backup_trainers 3 of 3 trainers, want 0 to 2: at least one trainer counts",
		"backup_trainers: 1\ntransport: grpc":                     "backup_trainers with the transport grpc",
		"backup_trainers: 1\nmerge_hosts: true":                   "backup_trainers with merge_hosts",
		"backup_trainers: 1\ncompress_gradients: topk:0.1":        "backup_trainers with compress_gradients topk:0.1",
		"backup_trainers: 1\ncompress_parameters: bf16":           "backup_trainers with compress_parameters",
		"backup_trainers: 1\ndata: {x: {files: a, follow: true}}": "backup_trainers with a dataset that follows",
		"staleness: 0":                                            "staleness 0 in sync mode",
		"staleness: -1\nmode: async":                              "staleness -1",
		"push_every: -1\nmode: async":                             "push_every -1",
		"push_every: 2\nmode: async\ncompress_gradients: bf16":    "push_every 2 with compression",
		"merge_hosts: true\nmode: async":                          "merge_hosts in async mode",
		"merge_hosts: true\ncompress_gradients: bf16":             "merge_hosts with compression",
		"merge_hosts: true\ncompress_gradients: topk:0.1":         "merge_hosts with compression",
		"merge_hosts: true\ntransport: grpc":                      "merge_hosts with the transport grpc",
		"passes: 2\ndata: {x: {files: a, follow: true}}":          "follows its folder",

		"checkpoint: {store: a, every: soon}":                                      "checkpoint.every",
		"checkpoint: {store: a, every: pass, rounds: 3}":                           "pass with rounds",
		"checkpoint: {store: a, every: pass}\ndata: {x: {files: a, follow: true}}": "a job without passes",
		"checkpoint: {store: a, often: 1}":                                         "unknown field often",
		"checkpoint: never":                                                        "checkpoint",
		"checkpoint: {store: a, every: 1ms}":                                       "checkpoint_every 1ms",
	} {
		if _, err := load(t, text); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want something about %s", text, err, says)
		}
	}
	for field, s := range map[string]*job.JobSpec{"max_ahead": {MaxAhead: -1}, "trainers": {Trainers: -1}, "pservers": {Pservers: -3}, "workers": {Workers: -1}} {
		jobspec.Complete(s)
		if err := jobspec.Check(s); err == nil || !strings.Contains(err.Error(), field+" -") {
			t.Errorf("%s below nothing: %v", field, err)
		}
	}
}

// All mistakes of a file are told at once, each with its line.
func TestMistakesNameTheirLines(t *testing.T) {
	_, err := load(t, "trainers: two\ntariners: 3\nmode: fast\nround_deadline: soon\n")
	if !errors.Is(err, fault.InvalidArgument) {
		t.Fatal(err)
	}
	for _, says := range []string{"line 1: ", "line 2: unknown field tariners", "line 3: ", "sync or async", "line 4: "} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in: %v", says, err)
		}
	}
}

// How often checkpoints are made is written as for the flag; rounds may be a number of their own.
func TestCheckpointsOfFile(t *testing.T) {
	for text, want := range map[string]*job.Checkpoints{
		"checkpoint: none":                           {None: true},
		"checkpoint: {store: a}":                     {Store: "a", Keep: 2, Every: durationpb.New(5 * time.Minute)},
		"checkpoint: {store: a, every: 3m, keep: 1}": {Store: "a", Keep: 1, Every: durationpb.New(3 * time.Minute)},
		"checkpoint: {store: a, every: 100r}":        {Store: "a", Keep: 2, Rounds: 100},
		"checkpoint: {store: a, rounds: 100}":        {Store: "a", Keep: 2, Rounds: 100},
		"checkpoint: {store: a, every: pass}":        {Store: "a", Keep: 2, Passes: true},
	} {
		s, err := load(t, text)
		if err != nil || !proto.Equal(s.Checkpoints, want) {
			t.Errorf("%s: %v %v, want %v", text, s.GetCheckpoints(), err, want)
		}
	}
}

// What is no file is refused by its name, once, and a pipe without a writer is not waited for.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, missing := filepath.Join(dir, "pipe"), filepath.Join(dir, "missing.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		dir:     fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("a directory"), fault.Want("a regular file")),
		pipe:    fault.E(fault.InvalidArgument, fault.At(pipe), fault.Got("a pipe"), fault.Want("a regular file")),
		missing: fault.E(fault.NotFound, fault.At(missing), fault.Cause(syscall.ENOENT)),
	} {
		if _, err := jobspec.Load(path); err == nil || err.Error() != want.Error() || fault.KindOf(err) != fault.KindOf(want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// Bounds of the number of pservers are those of a job that can change it.
func TestPserverBounds(t *testing.T) {
	for what, c := range map[string]struct {
		spec  *job.JobSpec
		wrong string // in the error; empty: there is none
	}{
		"no bounds":          {&job.JobSpec{Pservers: 3}, ""},
		"within":             {&job.JobSpec{Pservers: 3, PserversMin: 2, PserversMax: 4}, ""},
		"too many":           {&job.JobSpec{Pservers: 5, PserversMin: 2, PserversMax: 4}, "pservers 5, want 2 to 4"},
		"too few":            {&job.JobSpec{Pservers: 1, PserversMin: 2, PserversMax: 4}, "pservers 1, want 2 to 4"},
		"the wrong way":      {&job.JobSpec{Pservers: 3, PserversMin: 4, PserversMax: 2}, "pservers_min 4, want 0 to 2"},
		"one bound":          {&job.JobSpec{Pservers: 3, PserversMin: 2}, "pservers_min 2, want 0 to 0"},
		"async":              {&job.JobSpec{Mode: job.Mode_ASYNC, PserversMax: 4}, ""},
		"async and fed":      {&job.JobSpec{Mode: job.Mode_ASYNC, Fed: true, PserversMax: 4}, "pservers_max of an async job that is fed"},
		"fed":                {&job.JobSpec{Fed: true, PserversMax: 4}, ""},
		"standbys":           {&job.JobSpec{Standby: 1, PserversMax: 4}, ""},
		"a part of a slice":  {&job.JobSpec{CompressGradients: "topk:0.1", PserversMax: 4}, "pservers_max with compress_gradients topk:0.1"},
		"async, of a number": {&job.JobSpec{Mode: job.Mode_ASYNC, Pservers: 4}, ""},
	} {
		jobspec.Complete(c.spec)
		err := jobspec.Check(c.spec)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Labels are what a terminal shows as it is.
func TestLabels(t *testing.T) {
	s, err := load(t, "labels: {team: vision, run: \"7\", a/b.c-d: A/b.c@d:e+f}")
	if err != nil || s.Labels["team"] != "vision" || s.Labels["run"] != "7" || len(s.Labels) != 3 {
		t.Errorf("%v, %v", s, err)
	}
	if labels, err := jobspec.ParseLabels([]string{"a=1", "b=", "c=x=y"}); err == nil || !strings.Contains(err.Error(), "the label c") {
		t.Errorf("a value with a sign: %v, %v", labels, err)
	}
	if labels, err := jobspec.ParseLabels([]string{"a=1", "b="}); err != nil || labels["a"] != "1" || len(labels) != 2 {
		t.Errorf("%v, %v", labels, err)
	}
	many := make([]string, 33)
	for i := range many {
		many[i] = "k" + strings.Repeat("x", i) + "=v"
	}
	for _, wrong := range [][]string{{"a"}, {"a=1", "a=2"}, {"A=1"}, {"-a=1"}, {"a=\x1b[2J"}, {"a=" + strings.Repeat("v", 64)}, many} {
		if labels, err := jobspec.ParseLabels(wrong); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v, %v", wrong, labels, err)
		}
	}
}

// Whoever shows a job file to others, such as kubectl explain, finds words for each field.
func TestFields(t *testing.T) {
	forms := map[string]jobspec.Form{"trainers": jobspec.Span, "data": jobspec.Sources, "checkpoint": jobspec.Open, "lease": jobspec.Duration, "mode": jobspec.Text, "staleness": jobspec.Integer,
		"trainer_cores": jobspec.Number, "no_slice": jobspec.Flag, "fetch": jobspec.Texts, "labels": jobspec.Labels, "program": jobspec.Text,
		"pod": jobspec.Object}
	for _, f := range jobspec.Fields() {
		if f.Name == "" || f.Doc == "" {
			t.Errorf("%+v has no name, or no words", f)
		}
		if want, ok := forms[f.Name]; ok && f.Form != want {
			t.Errorf("%s has the form %d, want %d", f.Name, f.Form, want)
		}
		delete(forms, f.Name)
	}
	if len(forms) > 0 {
		t.Errorf("%v are missing", forms)
	}
}
