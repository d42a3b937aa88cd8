package engine

import "github.com/dptrain/dptrain/internal/setting"

// SettingError refuses a setting. Its message names settings as the fields of a [Config], or as the keys
// of a schema.
type SettingError = setting.Error
