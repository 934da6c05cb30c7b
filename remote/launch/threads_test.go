package launch

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/job"
)

func TestThreads(t *testing.T) {
	for name, c := range map[string]struct {
		role    job.Role
		spec    *job.JobSpec
		hosts   uint32
		cores   int
		threads int
	}{
		"trainers divide the cores":       {job.Role_TRAINER, &job.JobSpec{Trainers: 3, Pservers: 1}, 0, 8, 2},
		"pservers divide the cores":       {job.Role_PSERVER, &job.JobSpec{Trainers: 3, Pservers: 2}, 0, 8, 4},
		"more roles than cores":           {job.Role_TRAINER, &job.JobSpec{Trainers: 50, Pservers: 4}, 0, 2, 1},
		"every worker has a thread":       {job.Role_TRAINER, &job.JobSpec{Trainers: 4, Pservers: 1, Workers: 3}, 0, 4, 3},
		"no more threads than cores":      {job.Role_TRAINER, &job.JobSpec{Trainers: 1, Pservers: 1, Workers: 9}, 0, 4, 4},
		"trainers that may join later":    {job.Role_TRAINER, &job.JobSpec{Trainers: 1, TrainersMax: 4, Pservers: 1}, 0, 8, 2},
		"roles on other hosts":            {job.Role_TRAINER, &job.JobSpec{Trainers: 6, Pservers: 1}, 4, 8, 4},
		"fewer roles than hosts":          {job.Role_PSERVER, &job.JobSpec{Trainers: 1, Pservers: 2}, 4, 8, 8},
		"a coordinator is left alone":     {job.Role_COORDINATOR, &job.JobSpec{Trainers: 2, Pservers: 2}, 0, 8, 0},
		"a spec that does not say enough": {job.Role_TRAINER, nil, 0, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if n := threads(&job.RoleSpec{Role: c.role, Spec: c.spec, Hosts: c.hosts}, c.cores); n != c.threads {
				t.Errorf("%d threads, want %d", n, c.threads)
			}
		})
	}
}

// A process with one thread renews its lease while it computes: timers fire and connections are read between kernels, though the goroutine that
// computes never waits.
func TestOneThreadComputesAndAnswers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 2)
	go func() { // who keeps leases
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		done <- err
	}()
	go func() { // who renews one
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			done <- err
			return
		}
		for i := 0; i < 5 && err == nil; i++ {
			<-time.After(time.Millisecond)
			if _, err = c.Write([]byte{1}); err == nil {
				_, err = io.ReadFull(c, make([]byte, 1))
			}
		}
		c.Close()
		done <- err
	}()
	const n = 256
	a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	workspace := make([]float32, kernel.GemmWorkspace(n, n, n))
	for ended := 0; ended < cap(done); {
		kernel.Gemm(false, false, n, n, n, 1, a, n, b, n, 0, c, n, workspace)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			ended++
		default:
		}
	}
}
