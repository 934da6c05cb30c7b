package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/diskfree"
	"github.com/edl-go/edl/internal/freememory"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
)

// Bounds of what "edl doctor" finds well.
const (
	littleMemory = 512 << 20
	littleDisk   = 2 << 30
	soonExpired  = 14 * 24 * time.Hour // of credentials
	wrongClock   = time.Second         // between two machines, beyond the time that a question takes
	slowStore    = 100 * time.Millisecond
	largeStore   = 1 << 30 // bytes of etcd's data; its default quota is 2 GiB
)

// A finding is one line of "edl doctor".
type finding struct {
	About  string `json:"about"`
	Result string `json:"result"` // ok, warning or wrong
	Is     string `json:"is"`
	Do     string `json:"do,omitempty"`
}

// A doctor collects findings.
type doctor struct {
	c    *console
	list []finding
}

func (d *doctor) ok(about, format string, values ...any) {
	d.list = append(d.list, finding{About: about, Result: "ok", Is: fmt.Sprintf(format, values...)})
}

func (d *doctor) warn(about, is, do string) {
	d.list = append(d.list, finding{about, "warning", is, do})
}

// wrong notes an error. do says what to do where the error does not.
func (d *doctor) wrong(about string, err error, do string) {
	text := err.Error()
	var f *fault.Fault
	if errors.As(err, &f) && f.Hint != "" {
		do = f.Hint
		text = strings.TrimSuffix(text, "; "+f.Hint)
	}
	d.list = append(d.list, finding{about, "wrong", text, do})
}

type doctorFlags struct {
	findFlags
	etcdFlags
	data   string
	addr   string
	cgroup string
}

func newDoctor(c *console) *cobra.Command {
	f := &doctorFlags{}
	var output *choice
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what jobs need of this machine: memory, disk, certificates, ports, listener, etcd",
		Long: `Check what jobs need of this machine, say what is wrong, and what to do. It changes nothing. It exits with status 1 if something is wrong; a warning is
not wrong. With --listener it also checks the listener at ADDR and the clocks of both machines, with --etcd the servers of an etcd cluster, and with --cgroup a control group.`,
		Example: "  edl doctor\n  edl doctor --listener 10.0.0.5:7164 --etcd https://10.0.0.7:2379 --etcd-ca ca.pem",
		Args:    cobra.NoArgs,
	}
	f.findFlags.add(cmd)
	f.etcdFlags.add(cmd)
	cmd.Flags().StringVar(&f.data, "data-dir", "", "the data folder of a listener, `DIR` (default: that of \"edl listen\" without flags)")
	cmd.Flags().StringVar(&f.addr, "addr", defaultAddress, "the address that a listener of this machine is to have, `HOST:PORT`")
	cmd.Flags().StringVar(&f.cgroup, "cgroup", "", "the control group that \"edl listen --cgroup\" is to use, `DIR`")
	output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := f.options(cmd.Flags(), c); err != nil {
			return err
		}
		if err := checkAddress("--addr", f.addr); err != nil {
			return err
		}
		d := &doctor{c: c}
		d.build()
		d.machine()
		d.credentials()
		d.folders(f.data)
		d.group(f.cgroup)
		d.ports(f.addr)
		d.listener(cmd.Context(), f)
		d.etcd(cmd.Context(), f)
		if err := context.Cause(cmd.Context()); err != nil {
			return err
		}
		return d.print(output.value)
	}
	return cmd
}

// errUnwell is the end of "edl doctor" where something is wrong, which it has printed.
var errUnwell = errors.New("something is wrong")

func (d *doctor) print(output string) (err error) {
	if output == "json" {
		err = writeJSON(d.c.out, struct {
			Findings []finding `json:"findings"`
		}{d.list})
	} else {
		t := tabwriter.NewWriter(d.c.out, 0, 0, 2, ' ', 0)
		for _, f := range d.list {
			fmt.Fprintf(t, "%s\t%s\t%s\n", f.Result, f.About, f.Is)
			if f.Do != "" {
				fmt.Fprintf(t, "\t\t-> %s\n", f.Do)
			}
		}
		err = t.Flush()
	}
	if err == nil && slices.ContainsFunc(d.list, func(f finding) bool { return f.Result == "wrong" }) {
		return errUnwell
	}
	return err
}

func (d *doctor) build() {
	v := d.c.currentVersion()
	text := fmt.Sprintf("edl %s, %s, %s", v.Version, v.Go, v.Platform)
	if !kernel.Vectorized() {
		d.warn("build", text+", without vector instructions", "on amd64 with AVX2 or AVX-512 EDL is many times faster")
		return
	}
	d.ok("build", "%s, with vector instructions", text)
}

func (d *doctor) machine() {
	free := freememory.Bytes()
	switch text := fmt.Sprintf("%d cores, %s free (of the machine, or of the control group)", runtime.GOMAXPROCS(0), humanBytes(free)); {
	case free == 0:
		d.warn("memory", "the system does not say how much is free", "bound programs with --memory")
	case free < littleMemory:
		d.warn("memory", text, "give the machine or its control group more, or run smaller jobs: a role alone takes about 50 MB")
	default:
		d.ok("memory", "%s", text)
	}
	for _, limit := range processLimits() {
		switch text := fmt.Sprintf("at most %d %s", limit.most, limit.of); {
		case limit.unlimited:
			d.ok(limit.about, "no limit for %s", limit.of)
		case limit.most < limit.little:
			d.warn(limit.about, text, limit.do)
		default:
			d.ok(limit.about, "%s", text)
		}
	}
}

// A processLimit is what the system lets a process of this user have.
type processLimit struct {
	about, of, do string
	most, little  uint64
	unlimited     bool
}

// credentials checks what this user shows to listeners, and what listeners of this user ask for.
func (d *doctor) credentials() {
	own, err := credential.OpenUser()
	switch {
	case err != nil:
		d.wrong("credentials", err, "")
	case own != nil:
		d.expiry("credentials", own.Name().String(), own.Expires(), "ask for new ones: edl credentials NAME -o FILE")
	}
	token, ca, err := credential.UserTokenFiles()
	if err == nil && token != "" {
		_, err = credential.OpenTokenUse(token, ca)
	}
	switch {
	case err != nil:
		d.wrong("token", err, "")
	case token != "":
		d.ok("token", "%s, for listeners with --oidc-issuer", token)
	}
	file, err := credential.File()
	if err != nil {
		d.wrong("authority", err, "")
		return
	}
	switch a, err := credential.Open(file); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.NotFound):
		d.ok("authority", "%s is not there yet: \"edl listen\" makes it", file)
	case err != nil:
		d.wrong("authority", err, "")
	default:
		d.expiry("authority", file, a.Expires(), "end the listeners, remove the file, and start them again")
	}
}

func (d *doctor) expiry(about, what string, at time.Time, do string) {
	text := fmt.Sprintf("%s, valid until %s", what, at.Format(time.DateOnly))
	switch left := time.Until(at); {
	case left <= 0:
		d.list = append(d.list, finding{about, "wrong", fmt.Sprintf("%s: expired on %s", what, at.Format(time.DateOnly)), do})
	case left < soonExpired:
		d.warn(about, text, do)
	default:
		d.ok(about, "%s", text)
	}
}

// folders checks the places where a listener writes.
func (d *doctor) folders(data string) {
	if data == "" {
		base, err := credential.Folder()
		if err != nil {
			d.wrong("data folder", err, "name one: edl listen --data-dir DIR")
		} else {
			data = base
		}
	}
	if data != "" {
		d.folder("data folder", data)
	}
	if _, err := os.Stat(os.TempDir()); err != nil { // nobody makes it
		d.wrong("temporary files", fileFault(os.TempDir(), err), "make the folder, or name another one in TMPDIR")
		return
	}
	d.folder("temporary files", os.TempDir())
}

// folder checks that this process may write to a folder, or to the nearest one above it that is there. It leaves nothing behind.
func (d *doctor) folder(about, dir string) {
	there := dir
	for {
		if _, err := os.Stat(there); err == nil || filepath.Dir(there) == there {
			break
		}
		there = filepath.Dir(there)
	}
	f, err := os.CreateTemp(there, ".edl-doctor-*")
	if err == nil {
		_, err = f.Write([]byte("x"))
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		do := "make it writable for this user, or name another folder"
		if errors.Is(err, syscall.ENOSPC) {
			do = "make room on this disk"
		}
		d.wrong(about, fileFault(dir, err), do)
		return
	}
	free, known := diskfree.Of(there)
	text := dir
	if known {
		text += ", " + humanBytes(free) + " free"
	}
	if known && free < littleDisk {
		d.warn(about, text, "make room: checkpoints take as much as the parameters and what the optimizer keeps, twice with --keep 2")
		return
	}
	d.ok(about, "%s", text)
}

// group checks the control group that roles are to be bounded by.
func (d *doctor) group(dir string) {
	if dir == "" {
		return
	}
	if err := launch.CheckCgroup(dir); err != nil {
		d.wrong("control group", err, "name another one: edl listen --cgroup DIR")
		return
	}
	d.ok("control group", "%s bounds the cores and the memory of each role", dir)
}

// ports checks that roles can listen on the loopback interface, and that a listener can have its address, unless one of this user has it.
func (d *doctor) ports(address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		d.wrong("ports", fault.Wrap(fault.Unavailable, "listen on 127.0.0.1:0", err), "allow this user to listen on the loopback interface")
		return
	}
	d.ok("ports", "the loopback interface takes servers")
	if isAnnounced(address) {
		return
	}
	if l, err = net.Listen("tcp", address); err == nil {
		err = l.Close()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		d.warn("address", address+" has a process that is no listener of this user", "end it, or start the listener at another one: edl listen --addr HOST:PORT")
	case err != nil:
		d.warn("address", fmt.Sprintf("%s: %v", address, err), "start the listener at another one: edl listen --addr HOST:PORT")
	default:
		d.ok("address", "%s is free", address)
	}
}

func (d *doctor) listener(ctx context.Context, f *doctorFlags) {
	client, err := f.open(ctx, "")
	if errors.Is(err, fault.NotFound) && f.findFlags.listener == "" {
		d.ok("listener", "none runs on this machine")
		return
	}
	if err != nil {
		do := "start it, or look at its log"
		if errors.Is(err, fault.InvalidArgument) {
			do = "name one with --listener HOST:PORT"
		}
		d.wrong("listener", err, do)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	is, err := remote.Describe(ctx, client)
	if err != nil {
		d.wrong("listener", err, "look at its log")
		return
	}
	text := fmt.Sprintf("%s, version %s, answers in %v", client.Address(), is.Version, is.Answer.Round(100*time.Microsecond))
	if is.SameOps {
		d.ok("listener", "%s", text)
	} else {
		d.warn("listener", text+", with other ops than this build", "run the same version of edl on both sides: it refuses programs of this one")
	}
	switch off := is.Ahead.Abs(); {
	case off > is.Answer+wrongClock:
		d.warn("clocks", fmt.Sprintf("that of the listener's machine differs by %v", is.Ahead.Round(time.Millisecond)),
			"set both by NTP: times in logs do not fit together, and certificates may count as not valid yet")
	default:
		d.ok("clocks", "that of the listener's machine differs by %v, give or take %v", is.Ahead.Round(time.Millisecond), (is.Answer / 2).Round(time.Millisecond))
	}
}

func (d *doctor) etcd(ctx context.Context, f *doctorFlags) {
	if len(f.endpoints) == 0 {
		return
	}
	servers, alarms, err := cluster.Inspect(ctx, cluster.Config{Endpoints: f.endpoints, Access: f.access, Prefix: cluster.Prefix("doctor")})
	for _, s := range servers {
		about := "etcd " + s.Endpoint
		text := fmt.Sprintf("version %s, %s of data, answers in %v", s.Version, humanBytes(s.Bytes), s.Answer.Round(100*time.Microsecond))
		switch {
		case s.Err != nil:
			d.wrong(about, s.Err, "start it, or take it from --etcd")
		case s.Bytes > largeStore:
			d.warn(about, text, "compact and defragment it: at its quota etcd takes no more writes, and jobs end")
		case s.Answer > slowStore:
			d.warn(about, text, "put it on a faster disk, or nearer: leases may end that are slow to renew")
		case s.Learns:
			d.warn(about, text+", it has no vote yet", "wait, or promote it")
		default:
			d.ok(about, "%s", text)
		}
	}
	for _, a := range alarms {
		d.list = append(d.list, finding{"etcd", "wrong", "alarm " + a, "free space (compact, defragment), then: etcdctl alarm disarm"})
	}
	if err != nil {
		d.wrong("etcd", unanswered(f.endpoints, err), "start it, or look at its log")
		return
	}
	d.ok("etcd users", "%s", sharedEtcd)
}
