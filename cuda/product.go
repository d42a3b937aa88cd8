//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

func (c *compiler) products(spec op.Spec, k call) bool { return false }
