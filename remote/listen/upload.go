package listen

import (
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/wire"
)

// uploadSilence is how long a caller may send nothing of a job or a state that it has begun to send. Then the call ends, and what has arrived takes no room any more.
const uploadSilence = time.Minute

// An upload is a job or a state that has not arrived whole.
type upload struct {
	of    *budget
	by    caller
	bytes int
}

// add takes room for more bytes. Admins have the room of all.
func (u *upload) add(bytes int) error {
	b := u.of
	b.mu.Lock()
	defer b.mu.Unlock()
	const budget = "bytes of jobs and states that arrive"
	switch bounded := !u.by.access.Covers(credential.Admin); {
	case bounded && b.uploadsOf[u.by.user]+bytes > maxUploadsOfUser:
		return over(budget, "the user "+fault.Quote(u.by.user), maxUploadsOfUser, "send one after the other")
	case b.uploads+bytes > maxUploads:
		return over(budget, "all users", maxUploads, "send it again when others have arrived")
	}
	if b.uploadsOf == nil {
		b.uploadsOf = map[string]int{}
	}
	b.uploads += bytes
	b.uploadsOf[u.by.user] += bytes
	u.bytes += bytes
	return nil
}

// end gives the room back.
func (u *upload) end() {
	b := u.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.bytes == 0 {
		return
	}
	b.uploads -= u.bytes
	if b.uploadsOf[u.by.user] -= u.bytes; b.uploadsOf[u.by.user] == 0 {
		delete(b.uploadsOf, u.by.user)
	}
	u.bytes = 0
}

// receive joins the pieces of m, at most limit bytes, which next receives, as they arrive. next fails when the call is over. receive fails when the caller is silent for too long.
func (u *upload) receive(m proto.Message, limit int, silence time.Duration, next func() ([]byte, error)) error {
	type piece struct {
		bytes []byte
		err   error
	}
	asked, pieces := make(chan struct{}), make(chan piece, 1)
	defer close(asked)
	go func() { // ends with this call, or, after a silence, when the caller's call is over
		for range asked {
			b, err := next()
			pieces <- piece{b, err}
		}
	}()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	whole := false
	defer func() {
		if whole {
			u.of.decoding.Unlock()
		}
	}()
	return wire.ReceivePieces(m, limit, func() ([]byte, error) {
		timer.Reset(silence)
		asked <- struct{}{}
		select {
		case p := <-pieces:
			switch {
			case p.err == nil:
				p.err = u.add(len(p.bytes))
			case errors.Is(p.err, io.EOF): // all is here
				u.of.decoding.Lock()
				whole = true
			default:
				p.err = wire.FromStatus("caller", p.err)
			}
			return p.bytes, p.err
		case <-timer.C:
			return nil, fault.E(fault.DeadlineExceeded, fault.At("listener"), fault.Gotf("%d bytes of a message, and then nothing for %v", u.bytes, silence), fault.Want("all of it"), fault.Hint("send it again"))
		}
	})
}
