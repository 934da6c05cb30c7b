package dataplane

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/edl-go/edl/fault"
)

// A region is memory that two processes share. The server makes it, of the size that the layout says, and seals that size: neither end can make the other
// fall off its end. What the peer writes is data and nothing else: lengths and places come from the layout and from frames, which are copied before they
// are checked.
//
// A slice that holds rows of a table has room for all of them, of which a round uses few. It has pages for the first rowsAtFirst bytes, and whoever writes it
// makes more before they are needed.
type region struct {
	bytes []byte
	file  *os.File // makes pages; nil: all are there
}

// seals of a region: its size stays as it is, and so do the seals.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newRegion makes a region for a layout. The pages that a round needs are there when it returns, but for those of many rows, so that no access can fail later.
func newRegion(l Layout) (*region, error) {
	fd, err := unix.MemfdCreate("edl-data", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	r, size := &region{file: os.NewFile(uintptr(fd), "edl-data")}, l.bytes()
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		err = l.atFirst(r.grow)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err == nil {
		err = r.open(size)
	}
	if err != nil {
		_ = r.file.Close()
		return nil, err
	}
	return r, nil
}

// open maps the file of a region.
func (r *region) open(size int) (err error) {
	r.bytes, err = unix.Mmap(int(r.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

// grow makes the pages of n bytes. Where it fails there is no memory for them, and nobody may write there.
func (r *region) grow(at, n int) error {
	return unix.Fallocate(int(r.file.Fd()), 0, int64(at), int64(n))
}

// settle lets the file go where nobody makes more pages.
func (r *region) settle(l Layout) {
	if !l.grows() {
		_ = r.file.Close()
		r.file = nil
	}
}

// openRegion maps a region that a server has made, and takes its file. It refuses one whose size is another, or may change.
func openRegion(fd, size int) (*region, error) {
	r := &region{file: os.NewFile(uintptr(fd), "edl-data")}
	var info unix.Stat_t
	err := unix.Fstat(fd, &info)
	if err == nil {
		have, wrong := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if wrong != nil || have&seals != seals || info.Size != int64(size) {
			err = fault.E(fault.Corrupt, fault.Gotf("shared memory of %d bytes with seals %#x", info.Size, have), fault.Wantf("%d bytes, sealed", size))
		}
	}
	if err == nil {
		err = r.open(size)
	}
	if err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// free gives the memory back. Nobody reads or writes it any more.
func (r *region) free() {
	if r.bytes != nil {
		_ = unix.Munmap(r.bytes)
	}
	if r.file != nil {
		_ = r.file.Close()
	}
}

// offerMemory makes a region and gives it to the trainer, with Welcome.
func (c *Conn) offerMemory(l Layout) error {
	socket, ok := c.net.(*net.UnixConn)
	send, receive, size := l.places()
	if !ok || size == 0 {
		return fault.E(fault.Unsupported, fault.Got("a request to share memory"), fault.Want("slices, and a unix socket"))
	}
	r, err := newRegion(l)
	if err != nil {
		return fault.E(fault.Unsupported, fault.Gotf("shared memory of %d bytes", size), fault.Cause(err))
	}
	defer r.settle(l)
	c.share(r, receive, send)
	c.growing(l.Receive)
	h := Head{Kind: Welcome}
	h.put(c.head[:])
	_, _, err = socket.WriteMsgUnix(c.head[:], unix.UnixRights(int(r.file.Fd())), nil)
	return broken(err)
}

// takeMemory shows a token, and maps the region that comes with Welcome.
func (c *Conn) takeMemory(token []byte, l Layout) error {
	socket := c.net.(*net.UnixConn)
	if _, err := socket.Write(append([]byte(helloShared), token...)); err != nil {
		return broken(err)
	}
	control := make([]byte, unix.CmsgSpace(4))
	n, oob, _, _, err := socket.ReadMsgUnix(c.got[:], control)
	if err == nil && n < HeadBytes {
		_, err = io.ReadFull(socket, c.got[n:])
	}
	file := receivedFile(control[:oob])
	if err = broken(err); err == nil {
		err = welcomed(c.parse())
	}
	switch {
	case err != nil && file >= 0:
		_ = unix.Close(file)
		return err
	case err != nil:
		return err
	case file < 0:
		return fault.E(fault.Unsupported, fault.Got("a welcome without memory"), fault.Want("memory to share"))
	}
	send, receive, size := l.places()
	r, err := openRegion(file, size)
	if err != nil {
		return fault.E(fault.Unsupported, fault.Got("memory that cannot be shared"), fault.Cause(err))
	}
	r.settle(l)
	c.share(r, send, receive)
	c.growing(l.Send)
	return nil
}

// receivedFile returns the only file that came with a message, or -1.
func receivedFile(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return -1
	}
	file := -1
	for i := range messages {
		files, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, f := range files {
			if unix.CloseOnExec(f); file < 0 {
				file = f
			} else {
				_ = unix.Close(f)
			}
		}
	}
	return file
}

// listenLocal opens a unix socket that has no file: its name is drawn at random and vanishes with the process. It returns nil where that does not work.
func listenLocal(ctx context.Context) net.Listener {
	name := make([]byte, 12)
	if _, err := rand.Read(name); err != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", "@edl-data-"+hex.EncodeToString(name))
	if err != nil {
		return nil
	}
	return l
}

// hostID tells one running system from another; empty: nobody knows.
var hostID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// sameUser reports whether the peer of a unix socket is a process of this user. It is true for other connections.
func sameUser(c net.Conn) bool {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		same = err == nil && int(peer.Uid) == os.Geteuid()
	})
	return err == nil && same
}
