//go:build linux

package kubetest

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A pod runs the first container of its object, once.
type pod struct {
	kubelet *Kubelet
	object  *corev1.Pod
	address string
	dir     string
	ended   chan struct{} // closed when the process has ended, or does not begin
	gone    chan struct{} // closed when the status says so, too

	mu      sync.Mutex
	process *os.Process
	asked   bool // to end
	told    bool // the status says how it has ended; who asks it to end from then on removes it
}

// run runs the pod to its end.
func (p *pod) run(ctx context.Context) {
	defer close(p.gone)
	code, reason, message := p.container(ctx)
	close(p.ended)
	final := corev1.PodSucceeded
	if code != 0 {
		final = corev1.PodFailed
	}
	c := p.object.Spec.Containers[0]
	p.tell(ctx, final, false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, Message: message, FinishedAt: metav1.Now()}}, c)
	p.mu.Lock()
	asked := p.asked
	p.told = true
	p.mu.Unlock()
	if asked {
		remove(ctx, p.kubelet, p.object)
	}
}

// container makes the files of the container, and runs its process.
func (p *pod) container(ctx context.Context) (code int, reason, message string) {
	c := p.object.Spec.Containers[0]
	binary, known := p.kubelet.images[c.Image]
	if !known && p.kubelet.simulated == nil {
		p.tell(ctx, corev1.PodPending, false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no image " + c.Image}}, c)
		<-p.stopping(ctx)
		return 137, "Error", ""
	}
	mounts, err := p.mount(ctx, c)
	if err != nil {
		return 128, "ContainerCannotRun", err.Error()
	}
	if p.kubelet.simulated != nil {
		return p.simulate(ctx, c, mounts), "Completed", ""
	}
	termination := filepath.Join(p.dir, "termination")
	mounts = append(mounts, mounted{c.TerminationMessagePath, termination})
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return 128, "ContainerCannotRun", err.Error()
	}
	defer log.Close()
	cmd := exec.Command(binary)
	if n := p.kubelet.names; n != nil {
		n.set(p.kubelet.t, p.object, p.address)
		cmd = n.command(p.dir, binary)
	}
	from, err := p.given(ctx, c)
	if err != nil {
		return 128, "ContainerCannotRun", err.Error()
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TMPDIR=" + inHost("/tmp", mounts)}, from...)
	env := map[string]string{}
	for _, e := range c.Env {
		value := inHost(e.Value, mounts)
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = map[string]string{"status.podIP": p.address, "metadata.name": p.object.Name}[e.ValueFrom.FieldRef.FieldPath]
		}
		env[e.Name] = value
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	for _, a := range c.Args {
		// All addresses of a pod are one: pods share the loopback interface.
		cmd.Args = append(cmd.Args, inHost(strings.ReplaceAll(expand(a, env), "//0.0.0.0:", "//"+p.address+":"), mounts))
	}
	if slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Projected != nil }) {
		kubeconfig, err := p.tokenOf(ctx)
		if err != nil {
			return 128, "ContainerCannotRun", err.Error()
		}
		cmd.Env = append(cmd.Env, "KUBECONFIG="+kubeconfig)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	p.mu.Lock()
	if p.asked {
		p.mu.Unlock()
		return 137, "Error", ""
	}
	if err = cmd.Start(); err == nil {
		p.process = cmd.Process
	}
	p.mu.Unlock()
	if err != nil {
		return 128, "ContainerCannotRun", err.Error()
	}
	probing, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	killed := false
	group.Go(func() { p.probe(probing, c) })
	group.Go(func() { killed = p.watchMemory(probing, c.Resources.Limits.Memory().Value()) })
	err = cmd.Wait()
	stop()
	group.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a container has no process without its first
	b, failed := os.ReadFile(termination)
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		p.kubelet.t.Logf("pod %s: %v", p.object.Name, failed)
	}
	if err == nil {
		return 0, "Completed", string(b)
	}
	if killed {
		return 137, "OOMKilled", string(b)
	}
	if written, err := os.ReadFile(log.Name()); err == nil && len(b) == 0 && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		b = written[max(0, len(written)-2048):]
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return code, "Error", string(b)
}

// stopping is closed when the pod is to end.
func (p *pod) stopping(ctx context.Context) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			p.mu.Lock()
			asked := p.asked
			p.mu.Unlock()
			if asked {
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

// end asks the process to end, and kills it after a while. It reports whether the pod had ended before, so that nobody else removes it.
func (p *pod) end(grace time.Duration) (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.asked
	p.asked = true
	if p.told || p.process == nil {
		return p.told
	}
	kill := func() { _ = syscall.Kill(-p.process.Pid, syscall.SIGKILL) }
	if grace <= 0 {
		kill()
		return false
	}
	if first {
		_ = p.process.Signal(syscall.SIGTERM)
		time.AfterFunc(grace, func() {
			select {
			case <-p.ended:
			default:
				kill()
			}
		})
	}
	return false
}

// probe asks the container whether it is ready, and tells the API server when that changes. One that is not alive for FailureThreshold times is killed.
func (p *pod) probe(ctx context.Context, c corev1.Container) {
	p.tell(ctx, corev1.PodRunning, c.ReadinessProbe == nil, containerRuns(), c)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	dead, was := int32(0), false
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if c.ReadinessProbe != nil {
			if is := p.serves(ctx, c.ReadinessProbe); is != was && ctx.Err() == nil {
				was = is
				p.tell(ctx, corev1.PodRunning, is, containerRuns(), c)
			}
		}
		if c.LivenessProbe != nil && was {
			if dead++; p.serves(ctx, c.LivenessProbe) {
				dead = 0
			}
			if dead >= c.LivenessProbe.FailureThreshold*c.LivenessProbe.PeriodSeconds {
				p.end(0)
			}
		}
	}
}

func containerRuns() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

// serves asks grpc_health_v1 or HTTP, in clear text as a kubelet does, or opens a port.
func (p *pod) serves(ctx context.Context, probe *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	if probe.TCPSocket != nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.port(probe.TCPSocket.Port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if probe.HTTPGet != nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.port(probe.HTTPGet.Port)+probe.HTTPGet.Path, nil)
		if err != nil {
			return false
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode < http.StatusBadRequest
	}
	conn, err := grpc.NewClient("passthrough:///"+p.address+":"+strconv.Itoa(int(probe.GRPC.Port)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: *probe.GRPC.Service})
	return err == nil && answer.Status == grpc_health_v1.HealthCheckResponse_SERVING
}

// port is the address of a port, which may have a name.
func (p *pod) port(of intstr.IntOrString) string {
	number := of.IntValue()
	for _, named := range p.object.Spec.Containers[0].Ports {
		if of.Type == intstr.String && named.Name == of.StrVal {
			number = int(named.ContainerPort)
		}
	}
	return net.JoinHostPort(p.address, strconv.Itoa(number))
}

// tell writes the status of the pod. A pod that is gone has none.
func (p *pod) tell(ctx context.Context, phase corev1.PodPhase, ready bool, state corev1.ContainerState, c corev1.Container) {
	truth := corev1.ConditionFalse
	if ready {
		truth = corev1.ConditionTrue
	}
	for ctx.Err() == nil {
		now := &corev1.Pod{}
		err := p.kubelet.core.Get().Namespace(p.object.Namespace).Resource("pods").Name(p.object.Name).Do(ctx).Into(now)
		if apierrors.IsNotFound(err) || err == nil && now.UID != p.object.UID {
			return
		}
		if err != nil {
			retry(ctx)
			continue
		}
		now.Status.Phase, now.Status.PodIP, now.Status.HostIP = phase, p.address, "127.0.0.1"
		now.Status.PodIPs = []corev1.PodIP{{IP: p.address}}
		now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: ready, State: state}}
		conditions := []corev1.PodCondition{{Type: corev1.PodReady, Status: truth, LastTransitionTime: metav1.Now()}, {Type: corev1.ContainersReady, Status: truth, LastTransitionTime: metav1.Now()}}
		for _, have := range now.Status.Conditions {
			if have.Type != corev1.PodReady && have.Type != corev1.ContainersReady {
				conditions = append(conditions, have)
			}
		}
		now.Status.Conditions = conditions
		if p.kubelet.core.Put().Namespace(now.Namespace).Resource("pods").Name(now.Name).SubResource("status").Body(now).Do(ctx).Error() == nil {
			return
		}
		retry(ctx)
	}
}

// retry waits a little before a request is made again.
func retry(ctx context.Context) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
