package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A podRig is a pod without a cluster: the files that a kubelet would mount, and an address that only this test has.
type podRig struct {
	pod       kubernetes.Pod
	spec      *job.RoleSpec
	authority *credential.Authority
	log       bytes.Buffer // of the role; to be read when the pod has ended
}

// newPodRig makes the files of a pod. role is what the role does.
func newPodRig(t *testing.T, last int, spec *job.RoleSpec, role func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error) *podRig {
	t.Helper()
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := authority.Issue(credential.Name{Kind: credential.Role, Job: spec.Job, Role: "trainer"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	spec.Credentials, spec.EtcdCredentials = own.PEM(), []byte("for etcd")
	o, err := kubernetes.NewObjects(kubernetes.Settings{Namespace: "a", Image: "edl", Name: "edl"}, spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range o.ConfigMap.BinaryData {
		write(t, filepath.Join(dir, name), b)
	}
	for name, b := range o.Secret.Data {
		write(t, filepath.Join(dir, name), b)
	}
	r := &podRig{spec: spec, authority: authority}
	r.pod = kubernetes.Pod{Address: fmt.Sprintf("127.78.%d.%d", os.Getpid()%251+1, last), SpecDir: dir, SecretDir: dir, Termination: filepath.Join(dir, "word"), Log: &r.log, Launcher: launch.Goroutines(role)}
	return r
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the pod, until its role has ended or ctx.
func (r *podRig) run(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- kubernetes.Run(ctx, r.pod, slog.New(slog.DiscardHandler)) }()
	return ended
}

// attend connects to the pod as a listener of an authority does, and waits until it answers or refuses.
func (r *podRig) attend(t *testing.T, authority *credential.Authority) (launch.Kept, error) {
	t.Helper()
	own, err := listen.OwnCredentials(authority, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(net.JoinHostPort(r.pod.Address, "7165"), wire.OfJob(own, r.spec.Job))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	kept := launch.Kept{Keeper: rpc.NewKeeperClient(conn)}
	stream, err := kept.Keeper.Attend(t.Context(), &rpc.AttendRequest{}, grpc.WaitForReady(authority == r.authority))
	if err == nil {
		_, err = stream.Recv()
	}
	return kept, err
}

// A pod runs its role, with the address of the pod and the credentials of the Secret, whether the ConfigMap has the role or the listener sends it. The listener hears its lines and how it has ended. So does
// the kubelet, by the exit code and the termination message.
func TestPod(t *testing.T) {
	large := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	wrong := fault.E(fault.NotFound, fault.At("train.rec"), fault.Got("no file"))
	for i, c := range []struct {
		name    string
		program []byte
		end     error
	}{
		{"mounted", []byte("small"), nil},
		{"sent", large, nil},
		{"fails", []byte("small"), wrong},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(job.Role_TRAINER, 0)
			spec.Program = c.program
			var r *podRig
			seen := make(chan struct{})
			r = newPodRig(t, i+1, spec, func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
				fmt.Fprintln(log, "a line")
				if spec.Advertise != r.pod.Address || !bytes.Equal(spec.Credentials, r.spec.Credentials) || string(spec.EtcdCredentials) != "for etcd" || !bytes.Equal(spec.Program, c.program) {
					return fault.New(fault.Internal, "another role")
				}
				select {
				case <-seen:
				case <-ctx.Done():
				}
				return c.end
			})
			ended := r.run(t.Context())
			kept, err := r.attend(t, r.authority)
			if err != nil {
				t.Fatal(err)
			}
			h, err := kept.Start(t.Context(), r.spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			close(seen)
			if err := h.Wait(); !errors.Is(err, c.end) && (c.end == nil || fault.KindOf(err) != fault.KindOf(c.end)) {
				t.Errorf("the listener hears %v, want %v", err, c.end)
			}
			var lines []string
			if err := kept.Lines(t.Context(), r.spec.CheckpointRun, 0, false, func(l *rpc.LogLine) { lines = append(lines, l.Line) }); err != nil || len(lines) != 1 || lines[0] != "a line" {
				t.Errorf("lines %q, %v", lines, err)
			}
			if _, err := kept.Keeper.Dismiss(t.Context(), &rpc.DismissRequest{}); err != nil {
				t.Error(err)
			}
			if err := <-ended; fault.KindOf(err) != fault.KindOf(c.end) {
				t.Errorf("the pod ends with %v, want %v", err, c.end)
			}
			if got := r.log.String(); got != "a line\n" {
				t.Errorf("the log of the container is %q", got)
			}
			word, err := os.ReadFile(r.pod.Termination)
			if c.end == nil {
				if err == nil {
					t.Errorf("a pod that has succeeded says %s", word)
				}
				return
			}
			told := &job.Failure{}
			if err = errors.Join(err, protojson.Unmarshal(word, told)); err != nil || fault.Kind(told.Kind) != fault.NotFound || !strings.Contains(wire.FaultOf(told).Error(), "train.rec") {
				t.Errorf("the termination message is %s, %v", word, err)
			}
		})
	}
}

// SIGTERM, which ends the context of the command, asks the role to end, and the pod ends as the role does.
func TestPodIsTerminated(t *testing.T) {
	running := make(chan struct{})
	r := newPodRig(t, 10, specOf(job.Role_TRAINER, 0), func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		close(running)
		<-ctx.Done()
		return fault.New(fault.Drained, "its round is over")
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := r.run(ctx)
	<-running
	cancel(fault.New(fault.Drained, "terminated"))
	if err := <-ended; !errors.Is(err, fault.Drained) {
		t.Errorf("the pod ends with %v", err)
	}
}

// A listener of another authority is refused, and so is one without certificates.
func TestPodRefusesStrangers(t *testing.T) {
	end := make(chan struct{})
	r := newPodRig(t, 11, specOf(job.Role_TRAINER, 0), func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		<-end
		return nil
	})
	ended := r.run(t.Context())
	kept, err := r.attend(t, r.authority) // it answers
	if err != nil {
		t.Fatal(err)
	}
	other, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.attend(t, other); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger is told %v", err)
	}
	h, err := kept.Start(t.Context(), r.spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(end)
	if err := h.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := kept.Keeper.Dismiss(t.Context(), &rpc.DismissRequest{}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A command that is started by hand says what is wrong.
func TestPodByHand(t *testing.T) {
	p := kubernetes.Here(io.Discard, func(string) string { return "" })
	p.Termination = filepath.Join(t.TempDir(), "word")
	if err := kubernetes.Run(t.Context(), p, slog.New(slog.DiscardHandler)); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}
