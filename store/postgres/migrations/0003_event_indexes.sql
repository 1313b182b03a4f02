-- oldest: 1

-- Administrators' events by who and what: a page of few among many events reads few rows.
CREATE INDEX IF NOT EXISTS audit_events_key ON audit_events (tenant, key_id, kind, n);
CREATE INDEX IF NOT EXISTS audit_events_key_n ON audit_events (tenant, key_id, n);
CREATE INDEX IF NOT EXISTS audit_events_user ON audit_events (tenant, user_id, kind, n);
CREATE INDEX IF NOT EXISTS audit_events_user_n ON audit_events (tenant, user_id, n);
CREATE INDEX IF NOT EXISTS audit_events_key_object ON audit_events (tenant, key_id, object, n);
CREATE INDEX IF NOT EXISTS audit_events_user_object ON audit_events (tenant, user_id, object, n);
CREATE INDEX IF NOT EXISTS audit_events_object ON audit_events (tenant, object, n);
CREATE INDEX IF NOT EXISTS audit_events_kind ON audit_events (tenant, kind, n);
CREATE INDEX IF NOT EXISTS audit_events_created ON audit_events (tenant, created, n);
