-- The same refusal as before, but one that ends without undoing: whoever may have to undo keeps a copy of every page that
-- an insert touches, and there is nothing to undo before the first row is there.
DROP TRIGGER entries_are_new;
CREATE TRIGGER entries_are_new BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE place = NEW.place)
  OR EXISTS (SELECT 1 FROM entries WHERE log = NEW.log AND id = NEW.id)
  OR (NEW.key IS NOT NULL AND EXISTS (SELECT 1 FROM entries WHERE log = NEW.log AND key = NEW.key))
  OR (NEW.attempt IS NOT NULL AND EXISTS (
    SELECT 1 FROM entries WHERE log = NEW.log AND execution = NEW.execution AND robot = NEW.robot
      AND attempt = NEW.attempt AND state = NEW.state))
BEGIN SELECT RAISE(FAIL, 'the ledger is append-only'); END;
