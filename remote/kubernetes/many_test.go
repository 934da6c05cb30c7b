//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/internal/kubetest"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/tensor"
)

var trainersOfJob = flag.Int("trainers", 20, "trainers of the job of TestClusterOfManyTrainers")

// manyRounds is how many rounds many trainers train.
const manyRounds = 5

// smallModel is a linear regression whose batches have two rows for each of n trainers, and a file of records for manyRounds of them.
func smallModel(t *testing.T, n int) (p *program.Program, records string) {
	t.Helper()
	m := layers.NewModel().Seed(1)
	data := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.Batch(data, 2*n))
	optimizer.SGD(0.01).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(batch[0], 1), batch[1]), layers.Name("loss")))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	records = filepath.Join(dir, "train-*")
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var record []byte
	for i := range 2 * n * manyRounds {
		x := make([]float32, 13)
		for j := range x {
			x[j] = float32((i*31+j*17)%101) / 101
		}
		features, err := tensor.FromSlice(x)
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.FromSlice([]float32{x[0] - x[5]})
		if err != nil {
			t.Fatal(err)
		}
		record = dataset.AppendRecord(record[:0], features, y)
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return p, records
}

// Many trainers in pods train rounds to the bits of the reference executor, each round with a contribution of each of them. Nodes are simulated, and roles are goroutines of this process.
func TestClusterOfManyTrainers(t *testing.T) {
	kubetest.Binaries(t)
	n := *trainersOfJob
	p, records := smallModel(t, n)
	plane := kubetest.Start(t)
	plane.Namespace(namespace)
	roles := launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
		return role.Run(ctx, spec, role.Options{Log: slog.New(slog.DiscardHandler), Report: launch.ReportOf(ctx), Renewals: launch.RenewalsOf(ctx)})
	})
	run := func(ctx context.Context, p *corev1.Pod, address string, host func(string) string) int {
		pod := kubernetes.Pod{Address: address, SpecDir: host("/etc/edl/role"), SecretDir: host("/etc/edl/secret"), Termination: host("/tmp") + "/word", Log: io.Discard, Launcher: roles}
		return fault.KindOf(kubernetes.Run(ctx, pod, slog.New(slog.DiscardHandler))).ExitCode()
	}
	const perNode = 60
	for node := range (n + 3 + perNode - 1) / perNode {
		plane.Simulate(1+node, run)
	}

	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := listen.OwnCredentials(authority, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := plane.Config()
	config.QPS, config.Burst = 0, 0
	launcher, err := kubernetes.NewLauncher(t.Context(), config, kubernetes.Settings{Namespace: namespace, Image: image, Name: "edl"}, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(launcher.Close)
	l, err := remote.Listen(t.Context(), remote.WithAddress("127.77.0.3:0"), remote.WithLauncher(launcher), remote.WithAuthority(authority), remote.WithRolesElsewhere(),
		remote.WithMaxRoles(2*n+20), remote.WithAllowedData(filepath.Dir(records)), remote.WithAllowedSave(filepath.Dir(records)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	user, err := authority.Issue(credential.Name{Kind: credential.User, User: "ann", Access: credential.Submitter}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cores := int64(100)
	spec := &remote.JobSpec{Trainers: int32(n), Pservers: 2, StartDeadline: durationpb.New(20 * time.Minute), RoundDeadline: durationpb.New(10 * time.Minute), Lease: durationpb.New(2 * time.Minute),
		TrainerNeeds: &job.Needs{Millicores: &cores}, PserverNeeds: &job.Needs{Millicores: &cores}}
	e, err := remote.NewExecutor(l.Address(), spec, remote.WithCredentials(user))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	began := time.Now()
	var first time.Time
	steps, save := 0, filepath.Join(filepath.Dir(records), "model")
	options := executor.TrainOptions{Data: map[string][]string{"train": {records}}, Passes: 1, Save: save}
	if _, err := e.Train(t.Context(), p, options, func(s executor.StepResult) error {
		if steps == 0 {
			first = time.Now()
		}
		if steps++; s.Trainers != n || s.Rows != int64(2*n) {
			t.Errorf("step %d has %d rows of %d trainers", s.Step, s.Rows, s.Trainers)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d trainers have trained their first round after %v, and %d more in %v; this process, with all roles, has taken %d MiB", n, first.Sub(began).Round(time.Second), steps-1, time.Since(first).Round(time.Millisecond), memory.Sys>>20)
	if steps != manyRounds {
		t.Errorf("%d rounds, want %d", steps, manyRounds)
	}
	expected := filepath.Join(t.TempDir(), "reference")
	alone, err := reference.New(p, n)
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	options.Save = expected
	if _, err := alone.Train(t.Context(), p, options, nil); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(expected)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(expected, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(save, f.Name())); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from that of the reference, %v", f.Name(), err)
		}
	}
	(&clusterRig{T: t, Plane: plane}).nothingLeft(namespace)
}
