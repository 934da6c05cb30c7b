//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

const trainingJobs = "/apis/" + operator.Group + "/" + operator.Version + "/namespaces/" + namespace + "/" + operator.Resource + "/"

// An operatorRig is a cluster with an operator.
type operatorRig struct {
	*clusterRig
	operators []*operatorProcess // of which one works
}

// apply sends what kubectl apply --server-side sends.
func (r *clusterRig) apply(path string, yaml []byte) error {
	return r.Core().Patch(types.ApplyYAMLPatchType).AbsPath(path).Param("fieldManager", "kubectl").Param("fieldValidation", "Strict").Body(yaml).Do(r.Context()).Error()
}

// change sends what kubectl patch --type merge, suspend and scale send.
func (r *clusterRig) change(name, subresource, patch string) {
	r.Helper()
	path := trainingJobs + name
	if subresource != "" {
		path += "/" + subresource
	}
	if err := r.Core().Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(r.Context()).Error(); err != nil {
		r.Fatalf("%s of %s: %v", patch, name, err)
	}
}

// trainingJob reads one; ok is false if there is none.
func (r *clusterRig) trainingJob(ctx context.Context, name string) (t operator.TrainingJob, ok bool, err error) {
	b, err := r.Core().Get().AbsPath(trainingJobs + name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return t, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	return t, err == nil, err
}

// awaitJob waits until a TrainingJob is as it should be. It fails at once if the job has failed and that is not waited for.
func (r *operatorRig) awaitJob(name, what string, holds func(t operator.TrainingJob) bool) (last operator.TrainingJob) {
	r.Helper()
	r.Await(name+" "+what, func(ctx context.Context) (bool, error) {
		r.alive()
		t, ok, err := r.trainingJob(ctx, name)
		if last = t; err != nil || !ok {
			return false, err
		}
		if holds(t) {
			return true, nil
		}
		if c := conditionOf(t, operator.Failed); c.Status == metav1.ConditionTrue && what != operator.Failed {
			r.Fatalf("%s has failed: %+v", name, c)
		}
		return false, fmt.Errorf("%+v", t.Status)
	})
	return last
}

func conditionOf(t operator.TrainingJob, of string) (c metav1.Condition) {
	for _, c := range t.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return c
}

// awaitCondition waits for a condition, with a reason where that is not empty.
func (r *operatorRig) awaitCondition(name, of, reason string) operator.TrainingJob {
	r.Helper()
	return r.awaitJob(name, of, func(t operator.TrainingJob) bool {
		c := conditionOf(t, of)
		return c.Status == metav1.ConditionTrue && (reason == "" || c.Reason == reason)
	})
}

// define installs the definition of the resource.
func (r *clusterRig) define() {
	r.Helper()
	definition, err := operator.Definition()
	if err == nil {
		err = r.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+operator.Resource+"."+operator.Group, definition)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Await("the resource is there", func(ctx context.Context) (bool, error) {
		err := r.Core().Get().AbsPath(trainingJobs).Do(ctx).Error()
		return err == nil, err
	})
}

// An operatorProcess is an operator of a test.
type operatorProcess struct {
	*exec.Cmd
	ended chan struct{} // closed when it has
	log   *lockedText
}

// operate starts an operator, whose jobs outlive it, and which ends with the test. Of several, one works.
func (r *operatorRig) operate() *operatorProcess {
	r.Helper()
	cmd := r.run("operator", "--kubeconfig", r.Kubeconfig, "--namespace", namespace, "--image", image, "--pod-template", r.template, "--addr", "127.77.0.2:7164", "--etcd", r.etcd,
		"--data-dir", filepath.Join(r.dir, "operator"), "--allow-data", r.dir, "--allow-save", filepath.Join(r.dir, "models"))
	o := &operatorProcess{cmd, make(chan struct{}), &lockedText{}}
	cmd.Stdout, cmd.Stderr = o.log, o.log
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		defer close(o.ended)
		_ = cmd.Wait()
	}()
	r.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-o.ended
		if r.Failed() {
			r.Logf("the operator wrote:\n%s", o.log)
		}
	})
	r.operators = append(r.operators, o)
	return o
}

// works waits for the operator that works, while another one waits. One that has ended is followed by a new one.
func (r *operatorRig) works() (o *operatorProcess) {
	r.Helper()
	for r.running() < 2 {
		r.operate()
	}
	r.Await("an operator works", func(context.Context) (bool, error) {
		r.alive()
		for _, o = range r.operators {
			if !o.hasEnded() && strings.Contains(o.log.String(), "listening on") {
				return true, nil
			}
		}
		return false, nil
	})
	return o
}

func (o *operatorProcess) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// running is how many operators have not ended.
func (r *operatorRig) running() (n int) {
	for _, o := range r.operators {
		if !o.hasEnded() {
			n++
		}
	}
	return n
}

// alive fails the test if no operator is left.
func (r *operatorRig) alive() {
	r.Helper()
	if r.running() == 0 {
		r.Fatal("the operators have ended")
	}
}

// survives disturbs a job that trains. It must end with the bits of the reference executor, and leave nothing. One that was over by then is repeated with more passes.
func (r *operatorRig) survives(name string, disturb func(ctx context.Context) error) {
	r.Helper()
	for passes, disturbed := 4, false; !disturbed; passes *= 2 {
		job := fmt.Sprint(name, passes)
		if err := r.apply(trainingJobs+job, r.manifest(job, passes, "trainers: 2")); err != nil {
			r.Fatal(err)
		}
		r.Await(job+" is disturbed, or over", func(ctx context.Context) (bool, error) {
			t, _, err := r.trainingJob(ctx, job)
			if err != nil || conditionOf(t, operator.Complete).Type != "" {
				return err == nil, err
			}
			if t.Status.Trainers < 2 {
				return false, fmt.Errorf("%+v", t.Status)
			}
			disturbed = true
			return true, disturb(ctx)
		})
		r.awaitCondition(job, operator.Complete, "Succeeded")
		r.compare(filepath.Join(r.dir, "models", job), passes)
	}
	r.nothingLeft(namespace)
}

// manifest writes a TrainingJob of recognize_digits.
func (r *clusterRig) manifest(name string, passes int, more ...string) []byte {
	lines := []string{"program: " + filepath.Join(r.dir, "program.pb"), "data: {train: " + filepath.Join(r.dir, "train-*") + "}", fmt.Sprint("passes: ", passes),
		"save: " + filepath.Join(r.dir, "models", name), "pservers: 2"}
	for _, line := range more {
		if without, ok := strings.CutPrefix(line, "-"); ok { // "-program" leaves a field out
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, without+":") })
		} else {
			lines = append(lines, line)
		}
	}
	return fmt.Appendf(nil, "apiVersion: %s/%s\nkind: TrainingJob\nmetadata: {name: %s, labels: {team: vision}}\nspec:\n  %s\n", operator.Group, operator.Version, name, strings.Join(lines, "\n  "))
}

// A TrainingJob that is applied runs to its end and computes the bits of the reference executor, also if it is suspended on the way. The API server refuses what cannot be.
// Its trainers are scaled, and who deletes it stops it.
func TestTrainingJob(t *testing.T) {
	r := &operatorRig{clusterRig: newClusterRig(t, nil)}
	if err := os.Mkdir(filepath.Join(r.dir, "models"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.define()
	r.works()
	apply := func(name string, passes int, more ...string) {
		t.Helper()
		if err := r.apply(trainingJobs+name, r.manifest(name, passes, more...)); err != nil {
			t.Fatalf("%v\n%s", err, r.manifest(name, passes, more...))
		}
	}

	apply("digits", 1, "trainers: 2")
	done := r.awaitCondition("digits", operator.Complete, "Succeeded")
	if s := done.Status; s.Progress == nil || *s.Progress != 100 || s.Loss == nil || s.Records == 0 || s.Steps == 0 || s.CompletionTime == nil || s.Job != "digits" {
		t.Errorf("the status is %+v", s)
	}
	r.awaitJob("digits", "is protected no more", func(t operator.TrainingJob) bool { return len(t.Finalizers) == 0 }) // it is so soon after the status
	r.compare(filepath.Join(r.dir, "models", "digits"), 1)
	r.nothingLeft(namespace)

	// So does a job file that is submitted. Its program goes with it.
	file := filepath.Join(r.dir, "job.yaml")
	write(t, file, fmt.Appendf(nil, "name: submitted\nprogram: program.pb\ndata: {train: %q}\ntrainers: 2\npservers: 2\npasses: 1\nsave: %s\npod: {env: {COST: 5}, nodeSelector: {kubernetes.io/hostname: node-1}}\n",
		filepath.Join(r.dir, "train-*"), filepath.Join(r.dir, "models", "submitted")))
	r.command(r.run("submit", "-f", file, "--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", namespace))
	r.awaitCondition("submitted", operator.Complete, "Succeeded")
	r.compare(filepath.Join(r.dir, "models", "submitted"), 1)
	if err := r.Core().Delete().AbsPath(trainingJobs + "submitted").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	r.Await("its program is gone", func(ctx context.Context) (bool, error) {
		err := r.Core().Get().Namespace(namespace).Resource("configmaps").Name("submitted-program").Do(ctx).Error()
		return apierrors.IsNotFound(err), err
	})

	// What cannot be is refused when it is applied.
	for _, c := range []struct {
		name, want string
		more       []string
	}{
		{"nodes", "is not nodes", []string{"trainers: 2"}},
		{"with.dot", "lower-case letters", []string{"trainers: 2"}},
		{"none", "a program or programFrom", []string{"-program"}},
		{"colour", "Unsupported value", []string{"mode: red"}},
		{"misspelt", "field not declared", []string{"trainer: 2"}},
		{"few", "fewer than the trainers", []string{"trainers: 2:4", "replicas: 1"}},
		{"many", "more than the trainers", []string{"trainers: 2:4", "replicas: 5"}},
		{"twice", "trainers_max is given", []string{"trainers: 2:4", "trainers_max: 4"}},
		{"digits", "trainers of a job does not change", []string{"trainers: 3"}},
		{"digits", "mode of a job does not change", []string{"trainers: 2", "mode: async"}},
	} {
		if err := r.apply(trainingJobs+c.name, r.manifest(c.name, 1, c.more...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s", c.name, c.more, err, c.want)
		}
	}

	// What the listener refuses has failed, with its words.
	apply("no-program", 1, "-program", "programFrom: {configMap: nobody, key: program.pb}")
	if c := conditionOf(r.awaitCondition("no-program", operator.Failed, "Refused"), operator.Failed); !strings.Contains(c.Message, "nobody") {
		t.Errorf("the condition is %+v", c)
	}
	apply("account", 1, "pod: {serviceAccountName: admin}")
	if c := conditionOf(r.awaitCondition("account", operator.Failed, "Refused"), operator.Failed); !strings.Contains(c.Message, "--allow-pods") {
		t.Errorf("the condition is %+v", c)
	}
	apply("outside", 1, "-program", "program: /etc/passwd")
	if c := conditionOf(r.awaitCondition("outside", operator.Failed, "Refused"), operator.Failed); !strings.Contains(c.Message, "--allow-data") {
		t.Errorf("the condition is %+v", c)
	}

	// A job that is suspended on the way computes the same bits. One that was over by then is repeated with more passes.
	for passes, suspended := 4, false; !suspended; passes *= 2 {
		name := fmt.Sprint("suspended", passes)
		apply(name, passes, "trainers: 2", "checkpoint: {every: 20r}")
		r.awaitJob(name, "runs", func(t operator.TrainingJob) bool {
			return t.Status.Trainers == 2 || conditionOf(t, operator.Complete).Type != ""
		})
		r.change(name, "", `{"spec": {"suspend": true}}`)
		end := r.awaitJob(name, "is suspended, or over", func(t operator.TrainingJob) bool {
			return conditionOf(t, operator.Suspended).Status == metav1.ConditionTrue || conditionOf(t, operator.Complete).Type != ""
		})
		if suspended = conditionOf(end, operator.Complete).Type == ""; suspended {
			if c := conditionOf(end, operator.Running); c.Status != metav1.ConditionFalse || end.Status.Trainers != 0 {
				t.Errorf("a suspended job: %+v", end.Status)
			}
			r.nothingLeft(namespace)
			if end = r.awaitJob(name, "tells its checkpoint", func(t operator.TrainingJob) bool { return t.Status.Checkpoint != nil }); end.Status.CheckpointSteps() == 0 || end.Status.CheckpointSteps() > end.Status.Steps { // it has trained on while the checkpoint was written
				t.Errorf("after %d steps the checkpoint is %s", end.Status.Steps, *end.Status.Checkpoint)
			}
			r.change(name, "", `{"spec": {"suspend": false}}`)
		}
		r.awaitCondition(name, operator.Complete, "Succeeded")
		r.compare(filepath.Join(r.dir, "models", name), passes)
	}

	// A role that is killed for lack of memory is named with its limit, and with what its program takes.
	apply("hungry", 1, "trainers: 2", "trainer_mib: 8")
	r.awaitJob("hungry", "says why", func(t operator.TrainingJob) bool {
		b, err := json.Marshal(t.Status)
		return err == nil && strings.Contains(string(b), "(OOMKilled), want at most its limit of 8Mi; the plan of the program counts at least 6")
	})
	if err := r.Core().Delete().AbsPath(trainingJobs + "hungry").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft(namespace)

	// A job goes on while the API server is away, also if that takes longer than the operator may hold its lease, and when the operator is killed and a trainer is lost before the next one works.
	working := r.works()
	r.survives("outage", func(context.Context) error {
		r.WithoutAPIFor(10 * time.Second)
		return nil
	})
	if !strings.Contains(working.log.String(), "the lease of the listener cannot be written now") {
		t.Error("the operator has not noticed the outage")
	}
	working = r.works()
	r.survives("killed", func(ctx context.Context) error {
		if err := working.Process.Kill(); err != nil {
			return err
		}
		<-working.ended
		list, err := r.pods(ctx, kubernetes.LabelRole+"=trainer,"+kubernetes.LabelIndex+"=1")
		if err == nil && len(list.Items) > 0 {
			err = r.deletes(ctx, list.Items[0].Name)
		}
		return err
	})

	// A job of a queue begins suspended, whatever it says, and begins when the queue lets it. Its trainers are scaled by the scale subresource.
	queued := bytes.Replace(r.manifest("queued", 1_000_000, "trainers: 1:3"), []byte("team: vision"), []byte(operator.QueueLabel+": main"), 1)
	if err := r.apply(trainingJobs+"queued", queued); err != nil {
		t.Fatal(err)
	}
	if q := r.awaitCondition("queued", operator.Suspended, "Queued"); !q.Spec.Suspend || conditionOf(q, operator.Created).Type != "" {
		t.Errorf("a job of a queue: %+v", q)
	}
	r.change("queued", "", `{"spec": {"suspend": false}}`)
	r.awaitCondition("queued", operator.Running, "")
	r.change("queued", "scale", `{"spec": {"replicas": 3}}`)
	r.awaitJob("queued", "has 3 trainers", func(t operator.TrainingJob) bool { return t.Status.Trainers == 3 })
	r.change("queued", "scale", `{"spec": {"replicas": 2}}`)
	r.awaitJob("queued", "has 2 trainers", func(t operator.TrainingJob) bool { return t.Status.Trainers == 2 })
	if err := r.Core().Delete().AbsPath(trainingJobs + "queued").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}

	// A job is deleted when its time is over.
	apply("brief", 1, "trainers: 1", "ttlSecondsAfterFinished: 0")
	for _, name := range []string{"queued", "brief"} {
		r.Await(name+" is gone", func(ctx context.Context) (bool, error) {
			_, there, err := r.trainingJob(ctx, name)
			return !there, err
		})
	}
	r.nothingLeft(namespace)
}
