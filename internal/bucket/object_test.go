package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
)

// Any sequence of reads gives the bytes of the object, though some answers break.
func TestObjectIsItsBytes(t *testing.T) {
	content := numbers(3 * tailBytes)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 1000, tailBytes, tailBytes + 1, 3 * tailBytes}).Draw(rt, "size")
		broken := rapid.SliceOfN(rapid.IntRange(-1, 5000), 0, 10).Draw(rt, "bytes before an answer breaks")
		f := &faulty{content: content[:size], trouble: func(request int) (int, error) {
			if request > len(broken) || broken[request-1] < 0 || request%tries == 0 {
				return 0, nil
			}
			return broken[request-1], errBroke
		}}
		o := f.object(context.Background())
		at := 0
		for range rapid.IntRange(1, 8).Draw(rt, "reads") {
			if rapid.Bool().Draw(rt, "jump") {
				at = rapid.IntRange(0, size+10).Draw(rt, "offset")
			}
			if rapid.Bool().Draw(rt, "gap") {
				at += rapid.IntRange(0, 50000).Draw(rt, "gap of")
			}
			if rapid.Bool().Draw(rt, "expect") {
				o.Expect(int64(at + rapid.IntRange(-1000, 100000).Draw(rt, "expected")))
			}
			p := make([]byte, rapid.IntRange(0, 50000).Draw(rt, "bytes"))
			want := content[min(at, size):min(at+len(p), size)]
			n, err := o.ReadAt(p, int64(at))
			if !bytes.Equal(p[:n], want) || (err != nil) != (n < len(p) || at >= size) || err != nil && !errors.Is(err, io.EOF) {
				rt.Fatalf("%d of %d bytes at %d of %d, error %v", n, len(p), at, size, err)
			}
			at += n
		}
		o.Close()
		if f.open != 0 {
			rt.Fatalf("%d answers are left open", f.open)
		}
	})
}

func TestObjectAsksLittle(t *testing.T) {
	f := &faulty{content: numbers(1 << 20)}
	o := f.object(t.Context())
	p := make([]byte, 1000)
	for range 3 { // the end is asked for once
		if _, err := o.ReadAt(p, 1<<20-2000); err != nil {
			t.Fatal(err)
		}
	}
	if f.requests != 1 || f.asked != tailBytes {
		t.Errorf("%d requests of %d bytes for the end", f.requests, f.asked)
	}
	f.requests, f.asked = 0, 0
	for _, at := range []int64{500000, 100000, 300000} {
		if _, err := o.ReadAt(p, at); err != nil {
			t.Fatal(err)
		}
	}
	if f.requests != 3 || f.asked != 3000 {
		t.Errorf("%d requests of %d bytes for three reads of 1000", f.requests, f.asked)
	}
	f.requests = 0
	for at := int64(0); at < 900000; at += 1000 {
		if _, err := o.ReadAt(p, at); err != nil {
			t.Fatal(err)
		}
	}
	if f.requests > 11 {
		t.Errorf("%d requests for 900 reads in a row", f.requests)
	}
}

// A reader that says how far it reads gets that in one answer, and no more. Small gaps cost no request, large ones do.
func TestObjectAsksForWhatIsExpected(t *testing.T) {
	f := &faulty{content: numbers(1 << 20)}
	o := f.object(t.Context())
	read := func(from, to, step int64) {
		t.Helper()
		for p := make([]byte, 1000); from < to; from += step {
			if _, err := o.ReadAt(p, from); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, at := range []int64{1000, 400000} {
		f.requests, f.asked = 0, 0
		o.Expect(at + 50000)
		read(at, at+50000, 1000)
		if f.requests != 1 || f.asked != 50000 {
			t.Errorf("%d requests of %d bytes for a run of 50000", f.requests, f.asked)
		}
	}
	o.Close()
	o.Expect(0)
	f.requests = 0
	read(0, 900000, 2000)
	if f.requests > 11 {
		t.Errorf("%d requests for 450 reads with gaps of 1000 bytes", f.requests)
	}
}

func TestObjectSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		kind     fault.Kind
		requests int
	}{
		"a connection that always breaks": {errBroke, fault.Unavailable, tries},
		"an object that is gone":          {errGone, fault.NotFound, 1},
		"an object that is shorter":       {io.EOF, fault.Unavailable, tries},
		"a silent store":                  {errSilence, fault.Unavailable, tries},
	} {
		f := &faulty{content: numbers(100), trouble: func(int) (int, error) { return 0, c.err }}
		o := f.object(t.Context())
		if c.err == errSilence {
			o.patience = time.Millisecond
		}
		n, err := o.ReadAt(make([]byte, 10), 20)
		want := c.err
		switch c.err {
		case errSilence:
			want = errStalled
		case io.EOF:
			want = io.ErrUnexpectedEOF
		case errGone, errBroke: // the library hides what a driver says
			want = c.kind
		}
		if n != 0 || !errors.Is(err, c.kind) || !errors.Is(err, want) || f.requests != c.requests || f.open != 0 {
			t.Errorf("%s: %d bytes, %d requests, %d left open, error %v", name, n, f.requests, f.open, err)
		}
	}
}

func TestObjectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("nobody wants it any more")
	f := &faulty{content: numbers(100), trouble: func(int) (int, error) {
		cancel(reason)
		return 0, errSilence
	}}
	if _, err := f.object(ctx).ReadAt(make([]byte, 10), 20); !errors.Is(err, fault.Canceled) || !errors.Is(err, reason) || f.requests != 1 {
		t.Errorf("%d requests, error %v", f.requests, err)
	}
}
