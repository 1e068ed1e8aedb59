-- needs: rules/settings
-- Set what code declares about lanes: {{name, {limit, per_user, worker_limit, max_pending, when_full}}, ...}.

base.allow_full()
settings.declare(unpacked(ARGV[2]))
return settings.done()
