package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// The committed definition of the resource is what the types say: "go generate" writes it.
func TestDefinition(t *testing.T) {
	want, err := operator.Definition()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "kubernetes", "trainingjob.yaml"))
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("deploy/kubernetes/trainingjob.yaml differs from what the types say (%v): run go generate in remote/kubernetes/operator", err)
	}
}

// A resource is a job file with a few fields more.
func TestJobOfResource(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"digits", `{"program": "/data/p.pb", "trainers": "2:4", "data": {"train": ["a", "b"], "more": {"files": "c", "follow": true}}, "checkpoint": "none", "round_deadline": "3m", "replicas": 3}`, ""},
		{"digits", `{"programFrom": {"configMap": "p", "key": "program.pb"}, "labels": {"team": "vision", "edl-go.github.io/uid": "of another"}}`, ""},
		{"digits", `{"program": "p", "trainer": 2}`, "unknown field trainer"},
		{"digits", `{"program": "p", "name": "other"}`, "spec.name"},
		{"digits", `{}`, "both a program and programFrom, or neither"},
		{"digits", `{"program": "p", "programFrom": {}}`, "both a program and programFrom, or neither"},
		{"with.dot", `{"program": "p"}`, "its name"},
		{"nodes", `{"program": "p"}`, "its name"},
	} {
		var tj operator.TrainingJob
		if err := json.Unmarshal([]byte(`{"metadata": {"name": "`+c.name+`", "uid": "u1"}, "spec": `+c.spec+`}`), &tj); err != nil {
			t.Fatal(err)
		}
		f, err := tj.Job()
		if c.want != "" {
			if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.spec, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		if f.Spec.Name != "digits" || f.Spec.Labels[operator.LabelUID] != "u1" {
			t.Errorf("%s: the job %v", c.spec, f.Spec)
		}
		again, err := json.Marshal(&tj)
		var back operator.TrainingJob
		if err == nil {
			err = json.Unmarshal(again, &back)
		}
		g, wrong := back.Job()
		if err != nil || wrong != nil || !proto.Equal(g.Spec, f.Spec) || g.Program != f.Program || back.Spec.Replicas != tj.Spec.Replicas || (back.Spec.ProgramFrom == nil) != (tj.Spec.ProgramFrom == nil) {
			t.Errorf("%s is written as %s: %v", c.spec, again, err)
		}
		if tj.Spec.ProgramFrom != nil {
			continue
		}
		if s := f.Spec; f.Program != "/data/p.pb" || s.Trainers != 2 || s.TrainersMax != 4 || len(s.Data) != 2 || !s.Data[0].Follow || len(s.Data[1].Globs) != 2 || !s.Checkpoints.None ||
			s.RoundDeadline.AsDuration().Minutes() != 3 || s.Mode != job.Mode_SYNC || tj.Spec.Replicas != 3 {
			t.Errorf("the job is %v", s)
		}
	}
}

// A queue in the spec admits a resource as one in its label does, and the job of the listener has none.
func TestQueueOfSpec(t *testing.T) {
	var tj operator.TrainingJob
	if err := json.Unmarshal([]byte(`{"metadata": {"name": "digits", "uid": "u1", "finalizers": ["`+operator.Finalizer+`"]}, "spec": {"program": "p", "queue": "main", "pod": {"env": {"A": "1"}}}}`), &tj); err != nil {
		t.Fatal(err)
	}
	if d := operator.Decide(operator.Observed{Resource: &tj}); d.Verb != operator.Hold {
		t.Errorf("it is to %q", d.Verb)
	}
	f, err := tj.Job()
	if err != nil || f.Spec.Queue != "" || f.Spec.Pod.GetEnv()["A"] != "1" {
		t.Errorf("the job %v, %v", f, err)
	}
}
