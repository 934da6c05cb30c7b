package web

import (
	"net/http"
	"time"

	"github.com/edl-go/edl/remote/credential"
)

// CredentialLife is how long credentials are valid that a user gets for a token: a working day, and no longer than the token counts. They outlive a token of an issuer,
// which nobody can take back.
const CredentialLife = 8 * time.Hour

// credentials answers with credentials of the user and the role of the token that is shown, for calls of the listener itself, which takes no tokens. So a token that counts for
// pages counts for calls, too, and for no more.
func (s *Server) credentials(q *http.Request) (kind string, body []byte, err error) {
	name, _ := q.Context().Value(callerKey{}).(credential.Name)
	if err := credential.CheckUser(name.User); err != nil {
		return "", nil, err
	}
	own, err := s.cfg.Authority.Issue(name, CredentialLife)
	if err != nil {
		return "", nil, err
	}
	s.cfg.Log.Info("credentials are issued for a token", "user", name.User, "role", name.Roles(), "valid", CredentialLife)
	return "application/x-pem-file", own.PEM(), nil
}
