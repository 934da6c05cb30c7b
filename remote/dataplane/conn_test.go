package dataplane

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Slices of any sizes, in any order and in any number of calls, arrive as they were, however the connection cuts what it carries.
func TestSlicesArrive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := tableOf(rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 16, 1000, readBuffer - 1, readBuffer, readBuffer + 1, 3 * readBuffer}), 1, 12).Draw(rt, "sizes")...)
		order := rapid.Permutation(all(table)).Draw(rt, "order")
		cut := rapid.IntRange(0, len(order)-1).Draw(rt, "cut")
		values := valuesOf(table)
		b := written(t, func(c *Conn) error { return send(c, values, order[:cut], order[cut:]) })
		var in io.Reader = bytes.NewReader(b)
		switch rapid.IntRange(0, 2).Draw(rt, "reads") {
		case 0:
			in = iotest.HalfReader(in)
		case 1:
			in = iotest.DataErrReader(in)
		}
		got, heads, err := receive(newConn(&stored{in: in}), table)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.EqualFunc(got, values, bytes.Equal) {
			rt.Fatal("the values differ")
		}
		if h := heads[len(heads)-1]; h.Flags != Last || h.Generation != 7 || h.Round != 3 || h.Rank != 1 {
			rt.Fatalf("the last head is %+v", h)
		}
	})
}

// A slice that is larger than a frame is cut, and small ones share a frame: no frame has more than FrameBytes, and only the last has the flag Last.
func TestFramesAreBounded(t *testing.T) {
	for name, sizes := range map[string][]int{
		"one of three frames":      {2*FrameBytes + 5},
		"one byte more":            {FrameBytes + 1},
		"exactly a frame":          {FrameBytes},
		"exactly two frames":       {FrameBytes / 2, FrameBytes / 2, FrameBytes},
		"a cut one between others": {100, FrameBytes, 0, 100},
		"none at the end":          {FrameBytes, 0},
		"many small ones":          slices.Repeat([]int{8, 0, 1}, 1500),
	} {
		table := tableOf(sizes...)
		values := valuesOf(table)
		got, heads, err := receive(reading(written(t, func(c *Conn) error { return send(c, values, all(table)) })), table)
		if err != nil || !slices.EqualFunc(got, values, bytes.Equal) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, h := range heads {
			if h.Body-uint64(h.Parts)*partBytes > FrameBytes || (h.Flags == Last) != (i == len(heads)-1) {
				t.Errorf("%s: head %d of %d is %+v", name, i, len(heads), h)
			}
		}
		if most := table.Bytes()/FrameBytes + 2; len(heads) > most {
			t.Errorf("%s: %d frames, want at most %d", name, len(heads), most)
		}
	}
}

// Where the bytes lie in shared memory, a frame names more of them, because each wakes the peer.
func TestSharedFramesNameMore(t *testing.T) {
	table := tableOf(2*sharedBytes + 1)
	values, memory := valuesOf(table), &region{bytes: make([]byte, table.Bytes())}
	out := written(t, func(c *Conn) error {
		c.share(memory, []int{0}, nil)
		return send(c, values, all(table))
	})
	c, p, frames := reading(out), NewProgress(table), 0
	c.share(memory, nil, []int{0})
	for ; !p.Complete(); frames++ {
		h, err := c.ReadHead()
		if err == nil {
			_, err = c.ReadParts(h, p)
		}
		if err == nil {
			err = c.End(h)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if frames != 3 || !bytes.Equal(memory.bytes, values[0]) {
		t.Errorf("%d frames for %d bytes, want 3 and the bytes in memory", frames, table.Bytes())
	}
}

// connected returns both ends of a TCP connection.
func connected(t testing.TB) (a, b *Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	y, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(); y.Close() })
	return newConn(x), newConn(y)
}

// Over TCP a gather write of more pieces than a system call takes arrives, and so does one of many megabytes.
func TestSlicesOverTCP(t *testing.T) {
	for _, sizes := range [][]int{slices.Repeat([]int{5, 0, 70}, 2000), {3 * FrameBytes, 9, FrameBytes - 1}} {
		table := tableOf(sizes...)
		values := valuesOf(table)
		a, b := connected(t)
		sent := make(chan error, 1)
		go func() { sent <- send(a, values, all(table)) }()
		got, _, err := receive(b, table)
		if err = errors.Join(err, <-sent); err != nil || !slices.EqualFunc(got, values, bytes.Equal) {
			t.Error(err)
		}
	}
}

// What a receiver does not want is thrown away, and is checked as well.
func TestDiscard(t *testing.T) {
	table := tableOf(10, 3*readBuffer, 0, 7)
	values := valuesOf(table)
	b := written(t, func(c *Conn) error {
		return errors.Join(send(c, values, all(table)), c.WriteMessage(Head{Kind: Declare, Round: 4}, &rpc.BarrierRequest{Rows: 9}))
	})
	discard := func(b []byte) error {
		c := reading(b)
		h, err := c.ReadHead()
		if err != nil {
			return err
		}
		parts, err := c.ReadParts(h, NewProgress(table))
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := c.Discard(p.Length); err != nil {
				return err
			}
		}
		if err := c.End(h); err != nil {
			return err
		}
		m := &rpc.BarrierRequest{}
		if h, err = c.ReadHead(); err == nil {
			err = c.ReadMessage(h, m)
		}
		if err == nil && (h.Kind != Declare || h.Round != 4 || m.Rows != 9) {
			t.Errorf("after what was discarded comes %+v, %v", h, m)
		}
		return err
	}
	if err := discard(b); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{HeadBytes + 4*partBytes, HeadBytes + 4*partBytes + 5000} {
		b[at] ^= 4
		if err := discard(b); !errors.Is(err, fault.Unavailable) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		b[at] ^= 4
	}
}

// stream is frames of all kinds that have a body, and readStream reads them.
func stream(t testing.TB) ([]byte, func(c *Conn) error) {
	table := tableOf(9, 0, 16, 9)
	values := valuesOf(table)
	b := written(t, func(c *Conn) error {
		return errors.Join(send(c, values, []int{2, 0}, []int{1, 3}), c.WriteMessage(Head{Kind: Declare}, &rpc.BarrierRequest{Rows: 9, Variables: 4}),
			c.WriteMessage(Head{Kind: Fault}, wire.FailureOf(fault.E(fault.NotFinite, fault.Op("sgd")))))
	})
	return b, func(c *Conn) error {
		got, _, err := receive(c, table)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(got, values, bytes.Equal) {
			t.Error("other values were taken")
		}
		h, err := c.ReadHead()
		if err != nil {
			return err
		}
		if err := c.ReadMessage(h, &rpc.BarrierRequest{}); err != nil {
			return err
		}
		_, err = c.ReadHead()
		return err
	}
}

// A change of any bit on the way, in heads, lists and bodies, is found, and another try may help: it does not fail the job.
func TestEveryDamagedByteIsRefused(t *testing.T) {
	good, read := stream(t)
	if err := read(reading(good)); !errors.Is(err, fault.NotFinite) {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if err := read(reading(b)); !errors.Is(err, fault.Unavailable) {
				t.Errorf("bit %d of byte %d changed: %v", bit, i, err)
			}
		}
	}
}

// A connection that ends after any byte is found, and another try may help.
func TestEveryTruncationIsRefused(t *testing.T) {
	good, read := stream(t)
	for n := range good {
		if err := read(reading(good[:n])); !errors.Is(err, fault.Unavailable) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}

func list(parts ...Part) (b []byte) {
	for _, p := range parts {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Slice))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Length))
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Offset))
	}
	return b
}

// A list that does not fit its table or its body is refused for good.
func TestListsAreChecked(t *testing.T) {
	table := tableOf(8, 8)
	for name, c := range map[string]struct {
		parts []Part
		bytes int
	}{
		"more parts than slices":   {[]Part{{Slice: 0, Length: 4}, {Slice: 0, Offset: 4, Length: 4}, {Slice: 1, Length: 8}}, 16},
		"a slice that is not here": {[]Part{{Slice: 2, Length: 8}}, 8},
		"the largest slice":        {[]Part{{Slice: math.MaxUint32, Length: 8}}, 8},
		"a gap":                    {[]Part{{Slice: 0, Offset: 1, Length: 7}}, 7},
		"a negative offset":        {[]Part{{Slice: 0, Offset: math.MinInt, Length: 7}}, 7},
		"too many bytes":           {[]Part{{Slice: 0, Length: 9}}, 9},
		"the largest length":       {[]Part{{Slice: 0, Length: math.MaxUint32}}, 8},
		"a repeat":                 {[]Part{{Slice: 0, Length: 8}, {Slice: 0, Length: 8}}, 16},
		"a body that is too short": {[]Part{{Slice: 0, Length: 8}}, 7},
		"a body that is too long":  {[]Part{{Slice: 0, Length: 8}}, 9},
		"a body without parts":     {nil, 1},
	} {
		b := frame(Head{Kind: Data, Parts: uint32(len(c.parts))}, append(list(c.parts...), make([]byte, c.bytes)...))
		conn := reading(b)
		h, err := conn.ReadHead()
		if err != nil {
			t.Fatal(name, err)
		}
		if parts, err := conn.ReadParts(h, NewProgress(table)); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v, %v", name, parts, err)
		}
	}
}

// Into and End hold a receiver to the length of the body.
func TestBodiesAreCounted(t *testing.T) {
	b := frame(Head{Kind: Declare}, []byte("12345"))
	c := reading(b)
	h, err := c.ReadHead()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Into(make([]byte, 6)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("more than the body: %v", err)
	}
	if err := c.Into(make([]byte, 4)); err != nil {
		t.Error(err)
	}
	if err := c.End(h); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "1 bytes after the end of a frame declare") {
		t.Errorf("before the end: %v", err)
	}
	c = reading(frame(Head{Kind: Declare}, []byte{0xff}))
	if h, err = c.ReadHead(); err != nil {
		t.Fatal(err)
	}
	if err := c.ReadMessage(h, &rpc.BarrierRequest{}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a message that is none: %v", err)
	}
}

// A Fault without a message, or of a kind that this build does not know, is an error as well.
func TestStrangeFaults(t *testing.T) {
	for _, m := range []*job.Failure{{}, {Kind: 10_000}, {Kind: -1}} {
		if h, err := reading(message(t, Head{Kind: Fault}, m)).ReadHead(); !errors.Is(err, fault.Internal) {
			t.Errorf("%v is read as %+v, %v", m, h, err)
		}
	}
	if h, err := reading(message(t, Head{Kind: Fault}, nil)).ReadHead(); err == nil {
		t.Errorf("%+v", h)
	}
}

// Lengths that a peer has chosen make no memory, but for messages, which are bounded.
func TestLengthsMakeNoMemory(t *testing.T) {
	table := tableOf(FrameBytes, FrameBytes)
	allocated := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	read := func(b []byte) (err error) {
		c := reading(b)
		h, err := c.ReadHead()
		if err == nil {
			_, err = c.ReadParts(h, NewProgress(table))
		}
		return err
	}
	for name, b := range map[string][]byte{
		"parts":  putHead(Head{Kind: Data, Parts: math.MaxUint32, Body: math.MaxUint32 * partBytes}),
		"body":   putHead(Head{Kind: Data, Parts: 2, Body: FrameBytes + 2*partBytes}),
		"length": frame(Head{Kind: Data, Parts: 1}, list(Part{Length: math.MaxUint32})),
	} {
		if n := allocated(func() {
			if err := read(b); err == nil {
				t.Error(name, "was taken")
			}
		}); n > 200<<10 {
			t.Errorf("%s: %d bytes of memory", name, n)
		}
	}
	fault := putHead(Head{Kind: Fault, Body: maxMessage})
	if n := allocated(func() { _, _ = reading(fault).ReadHead() }); n > maxMessage+200<<10 {
		t.Errorf("a fault: %d bytes of memory", n)
	}
}

// A steady round makes no memory: neither the frames that are written nor those that are read.
func TestRoundsMakeNoMemory(t *testing.T) {
	table := tableOf(100, 40_000, 0, 3)
	values, order := valuesOf(table), all(table)
	b := written(t, func(c *Conn) error { return send(c, values, order) })
	in := bytes.NewReader(b)
	s := &stored{in: in}
	c, p := newConn(s), NewProgress(table)
	get := func(slice int) ([]byte, error) { return values[slice], nil }
	if n := testing.AllocsPerRun(100, func() {
		s.out.Reset()
		if err := c.WriteSlices(Head{Kind: Data}, order, get); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations to write", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		in.Reset(b)
		p.Reset()
		h, err := c.ReadHead()
		if err != nil {
			t.Fatal(err)
		}
		parts, err := c.ReadParts(h, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if err := c.Into(values[part.Slice]); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.End(h); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations to read", n)
	}
}

// An error of the memory of a slice ends WriteSlices before anything of its frame is written.
func TestWriteSlicesWithoutMemory(t *testing.T) {
	s := &stored{}
	none := fault.E(fault.Internal, fault.Got("no memory"))
	err := newConn(s).WriteSlices(Head{Kind: Params}, []int{0, 1}, func(slice int) ([]byte, error) {
		if slice == 1 {
			return nil, none
		}
		return []byte("abc"), nil
	})
	if err != none || s.out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, s.out.Len())
	}
}

// The reason why a server ends a connection arrives, although the trainer is in the middle of a write that the server does not read.
func TestFailReachesAWriter(t *testing.T) {
	trainer, server := connected(t)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		if _, err := server.ReadHead(); err != nil {
			t.Error(err)
		}
		server.Fail(fault.E(fault.Superseded, fault.Got("generation 3")))
	}()
	value := make([]byte, 64<<20)
	if err := trainer.WriteSlices(Head{Kind: Data}, []int{0}, func(int) ([]byte, error) { return value, nil }); err != nil {
		t.Errorf("the write is told %v before the reason is read", err)
	}
	if _, err := trainer.ReadHead(); !errors.Is(err, fault.Superseded) || !strings.Contains(err.Error(), "generation 3") {
		t.Errorf("the trainer is told %v", err)
	}
	trainer.Close()
	<-failed
}

// Fail ends after some seconds when the peer reads the reason and does not close its end, and also when it reads nothing.
func TestFailIsBounded(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe()
			defer y.Close()
			start := time.Now()
			if reads {
				go func() {
					if _, err := newConn(y).ReadHead(); !errors.Is(err, fault.NotFinite) {
						t.Error(err)
					}
				}()
			}
			newConn(x).Fail(fault.E(fault.NotFinite))
			if d := time.Since(start); d != drainTime {
				t.Errorf("reads %v: it took %v", reads, d)
			}
			if _, err := x.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("reads %v: the connection is open: %v", reads, err)
			}
		})
	}
}

// The end of a context ends a read that waits, and a write whose peer does not read, at once. A watch that has ended before changes nothing.
func TestBound(t *testing.T) {
	value := make([]byte, 1000)
	for name, do := range map[string]func(c *Conn) error{
		"read":    func(c *Conn) error { _, err := c.ReadHead(); return err },
		"write":   func(c *Conn) error { return send(c, [][]byte{value}, []int{0}) },
		"message": func(c *Conn) error { return c.WriteMessage(Head{Kind: Declare}, nil) },
	} {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe()
			defer x.Close()
			defer y.Close()
			c := newConn(x)
			early, cancelEarly := context.WithCancel(t.Context())
			c.Bound(early, time.Time{})
			c.Unbound()
			c.Unbound()
			c.Bound(early, time.Time{})
			ctx, cancel := context.WithCancel(t.Context())
			c.Bound(ctx, time.Now().Add(time.Hour))
			cancelEarly()
			ended := make(chan error, 1)
			go func() { ended <- do(c) }()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatalf("%s: it did not wait: %v", name, err)
			default:
			}
			start := time.Now()
			cancel()
			if err := <-ended; !errors.Is(err, fault.Unavailable) || time.Since(start) > 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
		})
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe()
			defer x.Close()
			defer y.Close()
			c, start := newConn(x), time.Now()
			c.Bound(t.Context(), start.Add(time.Minute))
			if err := do(c); !errors.Is(err, fault.Unavailable) || time.Since(start) != time.Minute {
				t.Errorf("%s: %v after %v, want the end at the limit", name, err, time.Since(start))
			}
		})
	}
}
