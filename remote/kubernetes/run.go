package kubernetes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// A Pod is what Run finds in a pod.
type Pod struct {
	Address     string // of the pod
	SpecDir     string // where the ConfigMap is mounted
	SecretDir   string // where the Secret is mounted
	Termination string // file that the kubelet reads when the container has ended
	Launcher    launch.Launcher
	Log         io.Writer // of the role, beside the listener
}

// Here is the pod that this process runs in, without a launcher. getenv is os.Getenv.
func Here(log io.Writer, getenv func(string) string) Pod {
	return Pod{Address: getenv(addressEnv), SpecDir: getenv(specEnv), SecretDir: getenv(secretEnv), Termination: getenv(terminationEnv), Log: log}
}

// podPatience is when a pod ends that no listener attends to: after Idle when its role has ended, or if none was sent.
var podPatience = launch.Patience{Idle: time.Minute, Alone: 12 * time.Hour}

// Run runs the role of a pod to its end, and returns how it has ended: the exit code of the process is that of the role. When ctx ends, as by the SIGTERM of a kubelet,
// the role is asked to end, and has the time of its job's deadlines.
func Run(ctx context.Context, p Pod, log *slog.Logger) (err error) {
	defer func() { err = errors.Join(err, p.leaveWord(err)) }()
	if net.ParseIP(p.Address) == nil {
		return fault.E(fault.InvalidArgument, fault.At(addressEnv), fault.Got(fault.Quote(p.Address)), fault.Want("the address of the pod; roles are started by edl itself"))
	}
	credentials, err := p.credentials()
	if err != nil {
		return err
	}
	own, err := credential.Parse(credentials.own)
	if err != nil {
		return err
	}
	one := &onlyRole{pod: p, secret: credentials, own: own, started: make(chan struct{})}
	k := launch.NewKeeper(one, &rpc.KeeperState{Id: p.Address})
	defer k.End(nil)
	serving, stop := context.WithCancel(context.Background())
	var servers sync.WaitGroup
	defer func() { stop(); servers.Wait() }()
	service := wire.NewServer(wire.ToListener(own))
	rpc.RegisterKeeperServer(service, k)
	healthy := health.NewServer()
	healthy.SetServingStatus(alive, grpc_health_v1.HealthCheckResponse_SERVING)
	healthy.SetServingStatus(ready, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	probed := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(probed, healthy)
	for _, of := range []struct {
		server *grpc.Server
		port   int
	}{{service, keeperPort}, {probed, healthPort}} {
		port, err := wire.Listen(ctx, net.JoinHostPort(p.Address, strconv.Itoa(of.port)))
		if err != nil {
			return err
		}
		servers.Go(func() {
			if err := wire.Serve(serving, of.server, port, time.Second); err != nil {
				log.Warn("a port of the pod is closed", "port", of.port, "error", err)
			}
		})
	}
	spec, err := p.spec()
	if err != nil {
		return err
	}
	if spec != nil {
		if _, err := k.Launch(spec.CheckpointRun, spec); err != nil {
			return err
		}
	}
	awaiting, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := make(chan error, 1)
	go func() { idle <- k.Await(awaiting, podPatience) }()
	select {
	case <-one.started:
	case err := <-idle:
		if err == nil {
			err = fault.E(fault.DeadlineExceeded, fault.At("pod"), fault.Gotf("no role for %v", podPatience.Idle), fault.Want("a listener that sends it"))
		}
		return err
	}
	healthy.SetServingStatus(ready, grpc_health_v1.HealthCheckResponse_SERVING)
	why := <-idle
	if why != nil { // a role that runs has the time that its job says
		one.handle.Stop(one.grace)
	}
	return one.handle.Wait()
}

// leaveWord writes how the role has ended where the kubelet reads it, which the cluster remembers: a listener may be away.
func (p Pod) leaveWord(err error) error {
	const most = 4096 // bytes that a kubelet reads
	if err == nil {
		return nil
	}
	m := wire.FailureOf(err)
	b, failed := protojson.Marshal(m)
	if failed == nil && len(b) > most {
		text := err.Error()
		b, failed = protojson.Marshal(&job.Failure{Kind: m.Kind, Message: text[:min(len(text), most/4)]})
	}
	if failed == nil {
		failed = os.WriteFile(p.Termination, b, 0o644)
	}
	return fault.Wrap(fault.Unavailable, p.Termination, failed)
}

// secret is what a pod finds in its Secret.
type secret struct{ own, etcd []byte }

func (p Pod) credentials() (s secret, err error) {
	if s.own, err = os.ReadFile(filepath.Join(p.SecretDir, credentialsKey)); err == nil {
		s.etcd, err = os.ReadFile(filepath.Join(p.SecretDir, etcdKey))
	}
	return s, fault.Wrap(fault.Unavailable, p.SecretDir, err)
}

// spec reads what the ConfigMap has; nil: the listener sends it.
func (p Pod) spec() (*job.RoleSpec, error) {
	b, err := os.ReadFile(filepath.Join(p.SpecDir, specKey))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, p.SpecDir, err)
	}
	return unpack(b)
}

// onlyRole starts the one role of a pod.
type onlyRole struct {
	pod    Pod
	secret secret
	own    *credential.Credentials // of the server of the pod: those of its role

	mu      sync.Mutex
	started chan struct{} // closed when handle is known
	handle  launch.Handle
	grace   time.Duration
}

// Start starts the role with the address of this pod, and with the credentials of its Secret.
func (o *onlyRole) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.handle != nil {
		return nil, fault.E(fault.Duplicate, fault.At(memberOf(spec).String()+" of job "+spec.Job), fault.Got("a pod that has a role"), fault.Want("a pod of its own"))
	}
	spec = proto.CloneOf(spec)
	spec.Advertise, spec.RunDir, spec.Credentials, spec.EtcdCredentials = o.pod.Address, "", o.secret.own, o.secret.etcd
	h, err := o.pod.Launcher.Start(ctx, spec, io.MultiWriter(log, o.pod.Log))
	if err != nil {
		return nil, err
	}
	h = renewed{h, o.own}
	o.handle, o.grace = h, jobspec.DeadlinesOf(spec.Spec).NodeStop
	close(o.started)
	return h, nil
}

// renewed is a role whose next credentials are those of the server of its pod, too.
type renewed struct {
	launch.Handle
	own *credential.Credentials
}

func (r renewed) Renew(m *job.RoleRenewal) error {
	next, err := credential.Parse(m.Credentials)
	if err == nil {
		err = r.own.Renew(next)
	}
	return errors.Join(err, r.Handle.Renew(m))
}
