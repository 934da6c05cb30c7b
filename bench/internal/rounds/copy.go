package rounds

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/fault"
)

// A Copy sends bytes to servers and gets as many back, through sockets without any protocol: what the carrier of a push and a pull allows.
type Copy struct {
	Network string  `json:"network"` // tcp or unix
	Bytes   int     `json:"bytes"`   // in each direction, divided among the servers
	Servers int     `json:"servers"`
	Seconds float64 `json:"seconds"`
}

// copyBuffer is the size of the buffers of sockets that copy, in bytes.
const copyBuffer = 2 << 20

// RunCopy measures a copy. server is the command line of this program that runs ServeCopy; each server is a process of its own.
func RunCopy(ctx context.Context, c Copy, server []string) (_ measure.Result, err error) {
	if c.Servers < 1 || c.Bytes < c.Servers {
		return measure.Result{}, fault.E(fault.InvalidArgument, fault.Gotf("%d bytes to %d servers", c.Bytes, c.Servers),
			fault.Want("at least one byte for each of at least one server"))
	}
	dir, err := os.MkdirTemp("", "edl-copy-")
	if err != nil {
		return measure.Result{}, err
	}
	defer os.RemoveAll(dir)
	share := c.Bytes / c.Servers
	peers := make([]net.Conn, c.Servers)
	for i := range peers {
		end, address, err := startCopy(ctx, c.Network, filepath.Join(dir, fmt.Sprint(i)), share, server)
		if err != nil {
			return measure.Result{}, err
		}
		defer end()
		var dialer net.Dialer
		if peers[i], err = dialer.DialContext(ctx, c.Network, address); err != nil {
			return measure.Result{}, err
		}
		defer peers[i].Close() // before the end of the server, which waits for it
		if err := enlarge(peers[i]); err != nil {
			return measure.Result{}, err
		}
	}
	buffers := make([][]byte, c.Servers)
	for i := range buffers {
		buffers[i] = make([]byte, share)
	}
	return measure.Repeat(time.Duration(c.Seconds*float64(time.Second)), func(int) error { return exchange(peers, buffers) })
}

// exchange sends a buffer to each peer and reads as many bytes back.
func exchange(peers []net.Conn, buffers [][]byte) error {
	turn := func(i int) error {
		if _, err := peers[i].Write(buffers[i]); err != nil {
			return err
		}
		_, err := io.ReadFull(peers[i], buffers[i])
		return err
	}
	errs := make([]error, len(peers))
	var all sync.WaitGroup
	for i := 1; i < len(peers); i++ {
		all.Go(func() { errs[i] = turn(i) })
	}
	errs[0] = turn(0)
	all.Wait()
	return errors.Join(errs...)
}

// startCopy starts a server. It returns what ends it, and its address.
func startCopy(ctx context.Context, network, path string, share int, server []string) (end func(), address string, err error) {
	cmd := exec.CommandContext(ctx, server[0], append(server[1:], network, path, fmt.Sprint(share))...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	end = func() { _ = cmd.Wait() } // it has nothing more to tell
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		end()
		return nil, "", fmt.Errorf("%s says no address: %w", cmd, err)
	}
	return end, strings.TrimSpace(line), nil
}

// ServeCopy listens on a free address of the network, writes the address as a line, accepts one connection, and answers each share of bytes with as
// many. It returns when the connection is closed. path is the socket if the network is unix.
func ServeCopy(network, path string, share int, out io.Writer) error {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = path
	}
	port, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer port.Close()
	if _, err := fmt.Fprintln(out, port.Addr()); err != nil {
		return err
	}
	peer, err := port.Accept()
	if err != nil {
		return err
	}
	defer peer.Close()
	if err := enlarge(peer); err != nil {
		return err
	}
	buffer := make([]byte, share)
	for {
		if _, err := io.ReadFull(peer, buffer); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if _, err := peer.Write(buffer); err != nil {
			return err
		}
	}
}

// enlarge gives a socket large buffers.
func enlarge(conn net.Conn) error {
	sized, ok := conn.(interface {
		SetReadBuffer(int) error
		SetWriteBuffer(int) error
	})
	if !ok {
		return nil
	}
	return errors.Join(sized.SetReadBuffer(copyBuffer), sized.SetWriteBuffer(copyBuffer))
}
