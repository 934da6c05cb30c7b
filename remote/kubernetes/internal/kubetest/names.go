//go:build linux

package kubetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// names take the place of the DNS of a cluster: pods that have a host name of a headless Service, as those of StatefulSets, find each other by it. Each pod sees a hosts file in place of that of the
// machine, in a mount namespace of its own. There it also sees no files of other pods but those of claims.
type names struct {
	file string
	own  string // an empty folder, where a pod holds its own while the others vanish
	all  string // folder of the files of all pods

	mu   sync.Mutex
	pods map[string]string // lines, by address
}

// Names lets the pods of the nodes that are started from now on find each other by name, and hides their files from each other. It skips the test on a machine that lets users make no mount namespaces.
func (p *Plane) Names() {
	p.t.Helper()
	n := &names{file: filepath.Join(p.t.TempDir(), "hosts"), own: p.t.TempDir(), all: p.pods, pods: map[string]string{}}
	if err := n.write(); err != nil {
		p.t.Fatal(err)
	}
	if out, err := n.command(p.t.TempDir(), "true").CombinedOutput(); err != nil {
		p.t.Skipf("no mount namespaces for users here: %v: %s", err, out)
	}
	p.names = n
}

// command is a command that sees the hosts file, and of the files of pods those in dir.
func (n *names) command(dir, program string) *exec.Cmd {
	const script = `mount --bind "$1" /etc/hosts && mount --bind "$4" "$2" && mount -t tmpfs none "$3" && mkdir -p "$4" && mount --bind "$2" "$4" && umount "$2" && cd "$4" && shift 4 && exec "$@"`
	cmd := exec.Command("sh", "-c", script, "sh", n.file, n.own, n.all, dir, program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	return cmd
}

// set gives the names of a pod its address. A pod without a Service has no name.
func (n *names) set(t testing.TB, p *corev1.Pod, address string) {
	if p.Spec.Hostname == "" || p.Spec.Subdomain == "" {
		return
	}
	own, service := p.Spec.Hostname+"."+p.Spec.Subdomain, p.Spec.Subdomain
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, line := range n.pods { // of an earlier pod of the name
		if strings.Contains(line, " "+own+" ") {
			delete(n.pods, other)
		}
	}
	n.pods[address] = fmt.Sprintf("%s %s %s.%s.svc.cluster.local %s\n", address, own, own, p.Namespace, service)
	if err := n.write(); err != nil {
		t.Error(err)
	}
}

// write writes the file anew, in place: who has mounted it sees that.
func (n *names) write() error {
	var lines []string
	for _, line := range n.pods {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return os.WriteFile(n.file, []byte("127.0.0.1 localhost\n"+strings.Join(lines, "")), 0o644)
}
